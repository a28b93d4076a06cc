//go:build unix

package keep_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/preflight"
	"github.com/pullonce/pullonce/internal/preflight/keep"
)

func questions(t *testing.T, lines ...string) []preflight.Question {
	t.Helper()
	permissions, err := preflight.Parse(lines)
	require.NoError(t, err)
	return preflight.Questions(permissions, "ci")
}

// kept keeps a verdict in a new folder and gives the folder and the file.
func kept(t *testing.T, key string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	v := preflight.Verdict{}
	for _, q := range questions(t, "pods: get,list") {
		v.Rows = append(v.Rows, preflight.Row{Question: q, Answer: preflight.Answer{Allowed: q.Verb == "get", Reason: "because"}, Attempts: 3})
	}
	require.NoError(t, keep.Write(dir, key, v))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return dir, files[0]
}

func TestAVerdictComesBack(t *testing.T) {
	t.Parallel()
	key := keep.Key("a", "b")
	dir, file := kept(t, key)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	v, err := keep.Read(dir, key, questions(t, "pods: get,list"))
	require.NoError(t, err)
	require.Equal(t, []string{"pods: list"}, preflight.Lines(v.Denied()))
	require.Equal(t, preflight.Answer{Reason: "because"}, v.Rows[1].Answer)
	require.Zero(t, v.Rows[0].Attempts)
}

func TestKeysTellPartsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"a\n1:b"}, {"a", "b"}} {
		key := keep.Key(parts...)
		require.False(t, seen[key], parts)
		seen[key] = true
	}
}

func TestWhatIsNotAnsweredIsNotKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	v := preflight.Verdict{Rows: []preflight.Row{{Err: errors.New("hang")}}}
	require.NoError(t, keep.Write(dir, keep.Key("a"), v))
	_, err := keep.Read(dir, keep.Key("a"), nil)
	require.ErrorIs(t, err, keep.ErrNone)
}

// TestWhatIsNotTrusted changes one thing about a file that would be.
func TestWhatIsNotTrusted(t *testing.T) {
	t.Parallel()
	key := keep.Key("a")
	for title, spoil := range map[string]func(t *testing.T, file string){
		"others can write it": func(t *testing.T, file string) { require.NoError(t, os.Chmod(file, 0o602)) },
		"the group can read":  func(t *testing.T, file string) { require.NoError(t, os.Chmod(file, 0o640)) },
		"a link": func(t *testing.T, file string) {
			require.NoError(t, os.Rename(file, file+".real"))
			require.NoError(t, os.Symlink(file+".real", file))
		},
		"a folder": func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		},
		"a pipe": func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, syscall.Mkfifo(file, 0o600))
		},
		"too long": func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 2<<20)) },
		"cut":      func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 20)) },
		"gone":     func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) },
		"another key": func(t *testing.T, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), key, keep.Key("b"), 1)), 0o600))
		},
		"another question": func(t *testing.T, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), "pods", "secrets", 1)), 0o600))
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			dir, file := kept(t, key)
			spoil(t, file)
			_, err := keep.Read(dir, key, questions(t, "pods: get,list"))
			require.ErrorIs(t, err, keep.ErrNone)
		})
	}
	dir, _ := kept(t, key)
	_, err := keep.Read(dir, key, questions(t, "pods: get"))
	require.ErrorIs(t, err, keep.ErrNone)
}

// TestWhatStandsInTheWayIsReplaced has another's link and another's file where the verdict is to be.
func TestWhatStandsInTheWayIsReplaced(t *testing.T) {
	t.Parallel()
	dir, file := kept(t, keep.Key("a"))
	victim := filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o666))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(victim, file))
	require.NoError(t, keep.Write(dir, keep.Key("a"), preflight.Verdict{}))
	data, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
	_, err = keep.Read(dir, keep.Key("a"), nil)
	require.NoError(t, err)
}
