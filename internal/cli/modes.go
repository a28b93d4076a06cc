package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Mode is a mode of the action as its users see it. It is read from the grammar, so that the action's metadata and the
// documentation can be held to what the program does.
type Mode struct {
	Name string
	// Inputs are the flags that are inputs as well, in the order of the help.
	Inputs []Input
	// Outputs are the names of the outputs that the mode writes, whatever it comes to.
	Outputs []string
	// Fails says when the mode ends with ExitNo or, for want of another reason, ExitUsage.
	Fails string
}

// Input is an option of a mode.
type Input struct{ Name, Default string }

// Modes are the modes that the action takes, in the order of the help.
func Modes() ([]Mode, error) {
	parser, err := kong.New(new(grammar))
	if err != nil {
		return nil, fmt.Errorf("building the command line: %w", err)
	}
	return modesOf(parser.Model), nil
}

// modesOf reads the modes off the commands: those that declare outputs are the action's, with every flag that is not
// marked as the command line's own.
func modesOf(model *kong.Application) []Mode {
	var modes []Mode
	for _, command := range model.Children {
		outputs := command.Tag.Get("outputs")
		if outputs == "" {
			continue
		}
		mode := Mode{Name: command.Name, Outputs: strings.Split(outputs, ","), Fails: command.Tag.Get("fails")}
		for _, flag := range command.Flags {
			if flag.Tag.Get("action") != "-" {
				mode.Inputs = append(mode.Inputs, Input{Name: flag.Name, Default: flag.Default})
			}
		}
		modes = append(modes, mode)
	}
	return modes
}
