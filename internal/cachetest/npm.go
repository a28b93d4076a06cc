package cachetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// InstallModules installs what the package.json in the folder from asks for, with npm, in a folder below cache that
// stays for the next time, and copies the folder's files beside it. It gives that folder: its node_modules are used by
// the scripts in it.
func InstallModules(ctx context.Context, from, cache string) (string, error) {
	manifest, err := os.ReadFile(filepath.Join(from, "package.json"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("npm-%.8x", sha256.Sum256(manifest)))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := install(ctx, manifest, dir); err != nil {
			return "", fmt.Errorf("installing what %s asks for: %w", filepath.Join(from, "package.json"), err)
		}
	}
	scripts, err := filepath.Glob(filepath.Join(from, "*.mjs"))
	if err != nil {
		return "", err
	}
	for _, script := range scripts {
		data, err := os.ReadFile(script)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(script)), data, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// install makes dir, whole or not at all.
func install(ctx context.Context, manifest []byte, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "npm-install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.WriteFile(filepath.Join(temp, "package.json"), manifest, 0o644); err != nil {
		return err
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--omit=dev")
	npm.Dir = temp
	if output, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
