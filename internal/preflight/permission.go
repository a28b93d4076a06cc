package preflight

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Permission is one verb on one resource, as RBAC counts them. Group "" is the core group, and "*" is all there is.
type Permission struct {
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Verb        string `json:"verb"`
}

// String is the permission as a line of its own.
func (p Permission) String() string { return p.resource() + ": " + p.Verb }

// resource is what stands before the colon.
func (p Permission) resource() string {
	var parts []string
	for _, part := range []string{p.Group, p.Resource, p.Subresource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// Default are the permissions that a runner's container hooks need in their namespace (actions/runner-container-hooks,
// packages/k8s/src/k8s/index.ts, requiredPermissions).
func Default() []string {
	return []string{
		"pods: get,list,create,delete",
		"pods/exec: get,create",
		"pods/log: get,list,watch",
		"secrets: get,list,create,delete",
	}
}

// Parse reads permissions, a line each: RESOURCE, RESOURCE/SUBRESOURCE, GROUP/RESOURCE or GROUP/RESOURCE/SUBRESOURCE, a
// colon, and verbs with commas between them. What is there twice counts once. The error tells of every line that is
// wrong.
func Parse(lines []string) ([]Permission, error) {
	var all []Permission
	var errs []error
	for _, line := range lines {
		permissions, err := parseLine(line)
		if err != nil {
			errs = append(errs, fmt.Errorf("permission %q: %w", line, err))
		}
		for _, p := range permissions {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	switch {
	case len(errs) > 0:
		return nil, oneError(errs)
	case len(all) == 0:
		return nil, errors.New("no permission is named")
	}
	return all, nil
}

// oneError tells of all errors in one line.
func oneError(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

func parseLine(line string) ([]Permission, error) {
	resource, verbs, ok := strings.Cut(line, ":")
	if !ok {
		return nil, errors.New("a colon and verbs are missing, as in pods: get,list")
	}
	p, err := parseResource(strings.TrimSpace(resource))
	if err != nil {
		return nil, err
	}
	var all []Permission
	for verb := range strings.SplitSeq(verbs, ",") {
		p.Verb = strings.TrimSpace(verb)
		if !word.MatchString(p.Verb) {
			return nil, fmt.Errorf("%q is no verb", p.Verb)
		}
		all = append(all, p)
	}
	return all, nil
}

// word is what groups, resources and verbs are spelled with.
var word = regexp.MustCompile(`^(\*|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)$`)

// parseResource tells RESOURCE/SUBRESOURCE from GROUP/RESOURCE by the resources of the core group, which has no name.
func parseResource(s string) (Permission, error) {
	parts := strings.Split(s, "/")
	for _, part := range parts {
		if !word.MatchString(part) {
			return Permission{}, fmt.Errorf("%q is no group and no resource: they are in lower case", part)
		}
	}
	core := parts[0] == "*" || slices.Contains(coreResources(), parts[0])
	switch {
	case len(parts) == 1 && core:
		return Permission{Resource: parts[0]}, nil
	case len(parts) == 1:
		return Permission{}, fmt.Errorf("the core group has no resource %q: write its plural, with its group, as in batch/jobs", s)
	case len(parts) == 2 && core && parts[0] != "*":
		return Permission{Resource: parts[0], Subresource: parts[1]}, nil
	case len(parts) == 2:
		return Permission{Group: parts[0], Resource: parts[1]}, nil
	case len(parts) == 3:
		return Permission{Group: parts[0], Resource: parts[1], Subresource: parts[2]}, nil
	default:
		return Permission{}, errors.New("it has more parts than GROUP/RESOURCE/SUBRESOURCE")
	}
}

// coreResources are the resources of the group without a name (k8s.io/api, core/v1).
func coreResources() []string {
	return append(coreWithoutNamespace(),
		"bindings", "configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods", "podtemplates",
		"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
	)
}

// coreWithoutNamespace are those that are in no namespace.
func coreWithoutNamespace() []string {
	return []string{"componentstatuses", "namespaces", "nodes", "persistentvolumes"}
}
