package simulate_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/simulate/simulatetest"
)

// TestTheModelAgreesWithTheClient runs the real client against the test registry in fake time. The end-to-end suite does the
// same over sockets.
func TestTheModelAgreesWithTheClient(t *testing.T) {
	t.Parallel()
	for name, check := range simulatetest.Checks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seed = 7
			synctest.Test(t, func(t *testing.T) {
				field := simulatetest.New(check.Setting)
				real := field.Run(t.Context(), check.Strategy, seed, "registry.example", func(ip int) http.RoundTripper {
					return field.Registry.Transport("192.0.2." + strconv.Itoa(ip))
				})
				compared := simulatetest.Compare(t.Context(), name, check, seed, real)
				t.Log(compared)
				require.NoError(t, compared.Check())
			})
		})
	}
}
