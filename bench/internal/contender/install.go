//go:build linux

package contender

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"

	"github.com/pullonce/pullonce/internal/cachetest"
)

// lookupScript is the script that looks an entry up.
const lookupScript = "lookup.mjs"

//go:embed lookup.mjs
var lookup []byte

// InstallClient installs the real cache client and Azurite below a cache folder, as the end-to-end suite has them, and
// gives the folder. root is the folder of our sources.
func InstallClient(ctx context.Context, root, cache string) (string, error) {
	dir, err := cachetest.InstallModules(ctx, filepath.Join(root, "e2e", "cache"), cache)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, lookupScript), lookup, 0o644)
}
