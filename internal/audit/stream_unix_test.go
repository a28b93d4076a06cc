//go:build unix

package audit_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/audit"
)

// stream is a rendering of many charts, made while it is read. It keeps the most heap that was in use meanwhile.
type stream struct {
	documents, next int
	rest            string
	peak            uint64
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if s.rest == "" && s.next == s.documents {
		return 0, io.EOF
	}
	if s.rest == "" {
		s.rest = document(s.next)
		if s.next++; s.next%100 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			s.peak = max(s.peak, m.HeapInuse)
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// document is one document of a rendering: of five, two are workloads, one is a service, one a config map, and one now
// and then a large one.
func document(i int) string {
	head := fmt.Sprintf("---\n# Source: chart-%d/templates/t.yaml\n", i%40)
	meta := fmt.Sprintf("metadata:\n  name: app-%d\n  labels: {app.kubernetes.io/name: app, helm.sh/chart: \"chart-%d\"}\n", i, i%40)
	switch {
	case i%1000 == 999:
		return head + "apiVersion: v1\nkind: ConfigMap\n" + meta + "data:\n  big: |\n" + strings.Repeat("    image: not/this:1 and more of it\n", 25_000)
	case i%5 == 0:
		return head + "apiVersion: v1\nkind: Service\n" + meta + "spec:\n  ports: [{port: 80, targetPort: http}]\n  selector: {app: a}\n"
	case i%5 == 1:
		return head + "apiVersion: v1\nkind: ConfigMap\n" + meta + "data:\n  app.conf: |\n" + strings.Repeat("    key = value\n", 60)
	}
	env := strings.Repeat("            - name: SOME_VARIABLE\n              valueFrom: {secretKeyRef: {name: s, key: k}}\n", 10)
	return head + "apiVersion: apps/v1\nkind: Deployment\n" + meta + "spec:\n  template:\n    spec:\n      containers:\n" +
		fmt.Sprintf("        - name: app\n          image: registry.example.com/team/app-%d:1.%d.0\n          env:\n", i%200, i%7) + env +
		"        - name: proxy\n          image: docker.io/envoyproxy/envoy:v1.35.0\n          resources: {limits: {cpu: 100m, memory: 64Mi}}\n"
}

// TestFiveThousandDocuments holds an audit to two seconds of processor time, and to memory that does not grow with its
// input. The time on the clock would be that of the machine's other work as well.
func TestFiveThousandDocuments(t *testing.T) {
	input := &stream{documents: 5_000}
	before := processorTime(t)
	result, err := audit.Run(audit.Options{Paths: []string{"-"}, Stdin: input})
	spent := processorTime(t) - before
	require.NoError(t, err)
	require.Equal(t, 6_000-2*5, result.Places)
	t.Logf("%d documents, %d images in %d places, in %v, heap at most %d MB", input.documents, result.Images, result.Places, spent, input.peak/1e6)
	require.Less(t, spent, 2*time.Second*raceFactor)
	require.Less(t, input.peak, uint64(100e6))
}

// processorTime is what this process has spent so far, on all of its threads.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
