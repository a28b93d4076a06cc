package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pullonce/pullonce/internal/kubernetes"
	"github.com/pullonce/pullonce/internal/yamldoc"
)

// parse is the first document of text.
func parse(t *testing.T, text string) *yamldoc.Document {
	t.Helper()
	for d, err := range yamldoc.Documents(strings.NewReader(text)) {
		require.NoError(t, err)
		return d
	}
	require.Fail(t, "no document")
	return nil
}

// value is what stands in n, or "-" where it is nil.
func value(n *yaml.Node) string {
	if n == nil {
		return "-"
	}
	return yamldoc.Resolve(n).Value
}

func TestUsesOfAPod(t *testing.T) {
	t.Parallel()
	d := parse(t, `
apiVersion: v1
kind: Pod
spec:
  initContainers: [{image: init, imagePullPolicy: Always}]
  containers:
    - &c {name: c, image: app}
    - *c
    - name: patch
    - no mapping
  ephemeralContainers: [{image: debug}]
  volumes:
    - {name: model, image: {reference: weights, pullPolicy: Never}}
    - {name: old, rbd: {image: disk, pool: p}}
    - {name: other, image: plain}
`)
	var got []string
	kubernetes.Uses(d, func(use kubernetes.Use) {
		got = append(got, fmt.Sprintf("%d %s %s %t", use.At.Line, value(use.Image), value(use.Policy), use.Volume))
	})
	require.Equal(t, []string{
		"5 init Always false", "7 app - false", "8 app - false", "9 - - false", "10 - - false", "11 debug - false", "13 weights Never true",
	}, got)
}

func TestASchemaHoldsNoContainers(t *testing.T) {
	t.Parallel()
	d := parse(t, `{apiVersion: v1, kind: X, spec: {properties: {containers: {type: array, items: {properties: {image: {type: string}}}}}}}`)
	kubernetes.Uses(d, func(use kubernetes.Use) { require.Fail(t, "found", "%v", use) })
}

func TestDepthIsTold(t *testing.T) {
	t.Parallel()
	d := parse(t, "apiVersion: v1\nkind: X\nx: "+strings.Repeat("[", 1000)+strings.Repeat("]", 1000))
	var told []error
	d.Tell = func(_ *yaml.Node, problem error) { told = append(told, problem) }
	kubernetes.Uses(d, func(kubernetes.Use) {})
	require.Equal(t, []error{kubernetes.ErrDepth}, told)
}

func TestObjectsOfAListAreItsItems(t *testing.T) {
	t.Parallel()
	kinds := func(text string) string {
		d := parse(t, text)
		var all []string
		kubernetes.Objects(d, func(object *yaml.Node) { all = append(all, kubernetes.Kind(d, object)) })
		return strings.Join(all, " ")
	}
	require.Equal(t, "Pod Job ", kinds("{apiVersion: v1, kind: List, items: [{kind: Pod}, {kind: Job}, {kind: {}}]}"))
	require.Equal(t, "Pod", kinds("{apiVersion: v1, kind: Pod, items: x}"))
	require.Equal(t, "", kinds("{items: [{kind: Pod}]}"), "no object, so no List")
}
