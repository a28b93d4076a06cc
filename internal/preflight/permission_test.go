package preflight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/preflight"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := preflight.Parse([]string{
		"pods: get , list", "pods/exec:create", "batch/jobs: create", "apps/deployments/scale: patch", "nodes: list", "*: *", "*/jobs: get",
		"example.com/gadgets: watch", "pods: list,delete",
	})
	require.NoError(t, err)
	require.Equal(t, []preflight.Permission{
		{Resource: "pods", Verb: "get"}, {Resource: "pods", Verb: "list"}, {Resource: "pods", Subresource: "exec", Verb: "create"},
		{Group: "batch", Resource: "jobs", Verb: "create"}, {Group: "apps", Resource: "deployments", Subresource: "scale", Verb: "patch"},
		{Resource: "nodes", Verb: "list"}, {Resource: "*", Verb: "*"}, {Group: "*", Resource: "jobs", Verb: "get"},
		{Group: "example.com", Resource: "gadgets", Verb: "watch"}, {Resource: "pods", Verb: "delete"},
	}, got)
	for _, p := range got {
		again, err := preflight.Parse([]string{p.String()})
		require.NoError(t, err)
		require.Equal(t, []preflight.Permission{p}, again)
	}
}

func TestParseTellsOfEveryLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"pods":          `permission "pods": a colon and verbs are missing, as in pods: get,list`,
		"pods:":         `permission "pods:": "" is no verb`,
		"pods: get,":    `permission "pods: get,": "" is no verb`,
		"pods: Get":     `permission "pods: Get": "Get" is no verb`,
		"Pods: get":     `permission "Pods: get": "Pods" is no group and no resource: they are in lower case`,
		"/pods: get":    `permission "/pods: get": "" is no group and no resource: they are in lower case`,
		"pod: get":      `permission "pod: get": the core group has no resource "pod": write its plural, with its group, as in batch/jobs`,
		"a/b/c/d: get":  `permission "a/b/c/d: get": it has more parts than GROUP/RESOURCE/SUBRESOURCE`,
		"po ds/x: list": `permission "po ds/x: list": "po ds" is no group and no resource: they are in lower case`,
	} {
		_, err := preflight.Parse([]string{line})
		require.EqualError(t, err, want)
	}
	_, err := preflight.Parse([]string{"pods", "pods: get", "jobs: get"})
	require.EqualError(t, err, `permission "pods": a colon and verbs are missing, as in pods: get,list; `+
		`permission "jobs: get": the core group has no resource "jobs": write its plural, with its group, as in batch/jobs`)
	_, err = preflight.Parse(nil)
	require.EqualError(t, err, "no permission is named")
}

func FuzzParse(f *testing.F) {
	for _, line := range append(preflight.Default(), "*/*: *", "batch/jobs: create", "a/b/c: d.e-f") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		permissions, err := preflight.Parse([]string{line})
		if err != nil {
			return
		}
		for _, p := range permissions {
			again, err := preflight.Parse([]string{p.String()})
			require.NoError(t, err)
			require.Equal(t, []preflight.Permission{p}, again)
		}
	})
}
