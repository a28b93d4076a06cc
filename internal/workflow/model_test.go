package workflow_test

import (
	"fmt"
	"strings"
	"unicode"
)

// command is one command as the runner understands it.
type command struct {
	name       string
	properties map[string]string
	data       string
}

// isCommand knows the commands that the runner registers, in lower case.
func isCommand(name string) bool {
	switch strings.ToLower(name) {
	case "set-env", "set-output", "save-state", "add-mask", "add-path", "add-matcher", "remove-matcher", "debug",
		"warning", "notice", "error", "group", "endgroup", "echo", "stop-commands", "internal-set-repo-path":
		return true
	}
	return false
}

// readLog models how the runner takes a step's stdout apart: StreamReader.ReadLine, then both of ActionCommand's parsers.
func readLog(log string) (plain []string, commands []command) {
	log = strings.TrimPrefix(log, "\uFEFF")
	log = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(log)
	for line := range strings.SplitSeq(strings.TrimSuffix(log, "\n"), "\n") {
		if c, ok := parseColons(line); ok {
			commands = append(commands, c)
		} else if c, ok := parseHashes(line); ok {
			commands = append(commands, c)
		} else {
			plain = append(plain, line)
		}
	}
	return plain, commands
}

func parseColons(line string) (command, bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "::")
	if !ok {
		return command{}, false
	}
	info, data, ok := strings.Cut(rest, "::")
	name, properties, _ := strings.Cut(info, " ")
	if !ok || !isCommand(name) {
		return command{}, false
	}
	unescape := func(s string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 { // one after the other, as the runner does
			s = strings.ReplaceAll(s, pairs[i], pairs[i+1])
		}
		return s
	}
	c := command{name: name, data: unescape(data, "%0D", "\r", "%0A", "\n", "%25", "%"), properties: map[string]string{}}
	for property := range strings.SplitSeq(strings.TrimSpace(properties), ",") {
		key, value, _ := strings.Cut(property, "=")
		if value = strings.TrimLeft(value, "="); value != "" {
			c.properties[key] = unescape(value, "%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
		}
	}
	return c, true
}

func parseHashes(line string) (command, bool) {
	_, rest, ok := strings.Cut(line, "##[")
	if !ok {
		return command{}, false
	}
	info, data, ok := strings.Cut(rest, "]")
	name, _, _ := strings.Cut(info, " ")
	return command{name: name, data: data}, ok && isCommand(name)
}

// readOutputs models EnvFileKeyValuePairs, the reader of GITHUB_OUTPUT.
func readOutputs(file string) (map[string]string, error) {
	outputs := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(file, "\n"), "\n")
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		equals, heredoc := strings.Index(line, "="), strings.Index(line, "<<")
		switch {
		case line == "":
		case equals >= 0 && (heredoc < 0 || equals < heredoc):
			name, value, _ := strings.Cut(line, "=")
			outputs[name] = value
		case heredoc >= 0:
			name, delimiter, _ := strings.Cut(line, "<<")
			var value []string
			for ; len(lines) > 0 && lines[0] != delimiter; lines = lines[1:] {
				value = append(value, lines[0])
			}
			if len(lines) == 0 {
				return nil, fmt.Errorf("matching delimiter %q not found", delimiter)
			}
			lines = lines[1:]
			outputs[name] = strings.Join(value, "\n")
		default:
			return nil, fmt.Errorf("invalid format %q", line)
		}
	}
	return outputs, nil
}
