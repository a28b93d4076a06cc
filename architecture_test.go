package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const internal = "github.com/pullonce/pullonce/internal/"

// allowed says which of our packages each of our packages may import. Imports go one way: from what is wanted, over how
// it is done, to plain data.
var allowed = map[string]string{
	"reference":             "",
	"platform":              "",
	"retry":                 "",
	"pace":                  "",
	"report":                "",
	"workflow":              "",
	"gate":                  "",
	"regtest":               "",
	"cachetest":             "regtest",
	"goldentest":            "",
	"wildcard":              "",
	"textfile":              "",
	"variable":              "",
	"yamldoc":               "textfile wildcard",
	"kubernetes":            "yamldoc",
	"compose":               "textfile variable yamldoc",
	"pin":                   "compose kubernetes platform reference textfile wildcard yamldoc",
	"dockerfile":            "textfile variable",
	"audit":                 "compose dockerfile kubernetes pin reference textfile wildcard yamldoc",
	"cachekey":              "reference platform",
	"plan":                  "cachekey pin platform reference",
	"image":                 "image/unpack reference platform",
	"image/unpack":          "",
	"tempfile":              "",
	"image/imagetest":       "image platform reference",
	"image/recompress":      "image image/unpack tempfile",
	"rerun":                 "command oneline retry",
	"preflight":             "retry",
	"preflight/cluster":     "command oneline preflight preflight/kubeconfig retry",
	"preflight/kubeconfig":  "",
	"preflight/keep":        "preflight",
	"preflight/apitest":     "",
	"registry":              "command image pace platform reference retry tempfile",
	"store":                 "image",
	"store/dir":             "image store",
	"store/actions":         "image oneline retry store store/actions/entry tempfile",
	"store/oci":             "image platform reference registry store", // a store that is a registry talks through what talks to registries
	"store/actions/entry":   "image store",
	"disk":                  "oneline",
	"target":                "image platform",
	"oneline":               "",
	"command":               "oneline",
	"command/commandtest":   "command",
	"image/fanout":          "image",
	"target/socket":         "oneline",
	"target/docker":         "disk image oneline platform reference target target/loopback target/socket",
	"target/loopback":       "image",
	"target/containerd":     "command disk image oneline platform reference target target/socket",
	"target/kind":           "command disk image image/fanout oneline platform target target/containerd target/docker",
	"target/podman":         "command disk image oneline platform target target/docker target/socket",
	"prime":                 "image image/recompress plan platform reference registry report store",
	"simulate":              "pace report retry",
	"simulate/page":         "simulate",
	"simulate/simulatetest": "image platform reference registry regtest retry simulate",
	"demo":                  "image lane pin plan platform prime reference registry regtest report retry store/dir target",
	"lane":                  "cachekey image image/fanout pin plan platform reference registry report store target",
	"cli": "audit cachekey command demo gate image image/recompress lane pin plan platform preflight preflight/cluster preflight/keep preflight/kubeconfig prime reference registry report rerun retry simulate simulate/page " +
		"store store/actions store/dir store/oci target target/containerd target/docker target/kind target/podman workflow",
}

// foreign says which packages of the outside only some of ours may import: whoever else does knows too much.
var foreign = map[string]string{
	"net/http":                          "cachetest demo preflight/apitest preflight/cluster registry regtest retry simulate/simulatetest store/actions store/oci target/docker target/loopback",
	"archive/tar":                       "image image/imagetest regtest store/actions/entry",
	"os/exec":                           "cachetest command",
	"flag":                              "goldentest",
	"log":                               "preflight/apitest regtest target/loopback",
	"github.com/Azure/azure-sdk-for-go": "cachetest store/actions",
	"github.com/google/go-containerregistry/pkg": "registry regtest store/oci",
	"github.com/moby/moby":                       "target/docker target/kind",
	"k8s.io":                                     "",
	"github.com/alecthomas/kong":                 "cli",
	"github.com/sethvargo/go-githubactions":      "workflow",
}

func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	walkImports(t, func(pkg, file, imported string) {
		seen[pkg] = true
		require.Contains(t, allowed, pkg, "%s: package internal/%s has no row in the table", file, pkg)
		if own, ok := strings.CutPrefix(imported, internal); ok {
			require.Contains(t, strings.Fields(allowed[pkg]), own, "%s: internal/%s must not import internal/%s", file, pkg, own)
		}
		for prefix, users := range foreign {
			if imported == prefix || strings.HasPrefix(imported, prefix+"/") {
				require.Contains(t, strings.Fields(users), pkg, "%s: internal/%s must not import %s", file, pkg, imported)
			}
		}
	})
	require.Equal(t, slices.Sorted(maps.Keys(allowed)), slices.Sorted(maps.Keys(seen)), "every row is a package and every package a row")
}

// walkImports calls visit for each import of each file of ours that is no test.
func walkImports(t *testing.T, visit func(pkg, file, imported string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("internal"), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path.Join("internal", file), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			visit(path.Dir(file), file, imported)
		}
		return nil
	})
	require.NoError(t, err)
}

// TestTheProcessEdge holds what belongs to main there: nothing else reads arguments or the environment, or exits.
func TestTheProcessEdge(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(os.DirFS("internal"), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path.Join("internal", file))
		if err != nil {
			return err
		}
		for _, edge := range []string{"os.Getenv(", "os.LookupEnv(", "os.Environ(", "os.Exit(", "os.Args", "os.Stdout", "os.Stderr", "func init()"} {
			require.NotContains(t, string(source), edge, file)
		}
		return nil
	})
	require.NoError(t, err)
}
