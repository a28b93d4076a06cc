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
