package app

import (
	"os/exec"
	"testing"
)

// TestContainers makes the containers that testcontainers would: of images that Docker has.
func TestContainers(t *testing.T) {
	for _, image := range []string{"testcontainers/ryuk:0.13.0", "postgres:17.6", "redis:8.2.1"} {
		if out, err := exec.Command("docker", "create", "--pull", "never", image).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", image, err, out)
		}
	}
}
