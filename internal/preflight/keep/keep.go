// Package keep owns the file in which a verdict is kept for the rest of a job, and what makes such a file worth trusting.
// It knows neither the cluster nor how a job is recognised.
package keep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pullonce/pullonce/internal/preflight"
)

// ErrNone says that no verdict is kept that can be used.
var ErrNone = errors.New("no verdict is kept")

// maxFile bounds a file that is read, in bytes.
const maxFile = 1 << 20

// Key names a verdict: a digest of everything that it holds for. Parts are told apart, whatever is in them.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s\n", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// kept is what is in the file. The key is in there whole, so that a file under another name is no other verdict.
type kept struct {
	Key  string `json:"key"`
	Rows []row  `json:"rows"`
}

type row struct {
	preflight.Question
	preflight.Answer
}

func path(dir, key string) string { return filepath.Join(dir, "pullonce-preflight-"+key[:16]+".json") }

// Write keeps a verdict in dir, for this user alone. One with a question that was not answered is not kept.
func Write(dir, key string, v preflight.Verdict) error {
	if !v.Answered() {
		return nil
	}
	k := kept{Key: key}
	for _, r := range v.Rows {
		k.Rows = append(k.Rows, row{r.Question, r.Answer})
	}
	data, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keeping the verdict: %w", err)
	}
	if err := publish(path(dir, key), data); err != nil {
		return fmt.Errorf("keeping the verdict: %w", err)
	}
	return nil
}

// publish puts a file in its place, whole, readable for this user alone. What stands there is replaced, not written to.
func publish(path string, data []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// Read gives the verdict that is kept under key in dir for these questions. A file that another user could have written,
// or that does not hold exactly this, is ErrNone, with the reason.
func Read(dir, key string, questions []preflight.Question) (preflight.Verdict, error) {
	data, err := read(path(dir, key))
	if err != nil {
		return preflight.Verdict{}, fmt.Errorf("%w: %w", ErrNone, err)
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return preflight.Verdict{}, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if k.Key != key || len(k.Rows) != len(questions) {
		return preflight.Verdict{}, fmt.Errorf("%w: the file is another verdict's", ErrNone)
	}
	v := preflight.Verdict{Rows: make([]preflight.Row, len(questions))}
	for i, r := range k.Rows {
		if r.Question != questions[i] {
			return preflight.Verdict{}, fmt.Errorf("%w: the file is another verdict's", ErrNone)
		}
		v.Rows[i] = preflight.Row{Question: r.Question, Answer: r.Answer}
	}
	return v, nil
}

// read reads a file of this user's that nobody else can write. Who it is that owns the name is asked of the open file, so
// that no other can take its place in between.
func read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&^0o600 != 0 || info.Size() > maxFile || !ours(info) {
		return nil, fmt.Errorf("%s is not to be trusted: mode %s, %d bytes", path, info.Mode(), info.Size())
	}
	return io.ReadAll(io.LimitReader(file, maxFile))
}
