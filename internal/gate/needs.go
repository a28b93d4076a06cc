package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// parse reads the results from a needs context: an object of jobs by id, each an object with result and outputs. Names
// are taken as they are spelled, which encoding/json would not do for a struct. A job without a result has the result "".
func parse(needs []byte) (map[string]string, error) {
	if len(bytes.TrimSpace(needs)) == 0 {
		return nil, errors.New("jobs is missing")
	}
	var jobs map[string]map[string]json.RawMessage
	if err := json.Unmarshal(needs, &jobs); err != nil {
		return nil, fmt.Errorf("reading the needs context, which is written ${{ toJSON(needs) }}: %w", err)
	}
	if err := checkNames(json.NewDecoder(bytes.NewReader(needs))); err != nil {
		return nil, fmt.Errorf("reading the needs context: %w", err)
	}
	results := make(map[string]string, len(jobs))
	for id, job := range jobs {
		var result string
		if raw, ok := job["result"]; ok {
			if err := json.Unmarshal(raw, &result); err != nil {
				return nil, fmt.Errorf("reading the result of job %q: %w", id, err)
			}
		}
		results[id] = result
	}
	return results, nil
}

// checkNames refuses an object, at any depth, that has a name twice: encoding/json would take the last of them without a
// word, and whoever wrote the first may have meant it. The JSON that d reads has been found to be well formed.
func checkNames(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if _, nested := token.(json.Delim); !nested {
		return nil
	}
	seen := map[json.Token]bool{}
	for d.More() {
		if token == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("%q is there twice", name)
			}
			seen[name] = true
		}
		if err := checkNames(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of it
	return err
}
