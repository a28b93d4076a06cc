package workflow

// Event is the name of the event that started the workflow, as in "push".
func (r *Runner) Event() string { return r.getenv("GITHUB_EVENT_NAME") }

// Untrusted says whether the event lets people without write access start the run. Such a run is given a token that may
// read the cache and not write to it. Where a pull request does not say where it comes from, it is taken for a fork's.
func (r *Runner) Untrusted() bool {
	switch r.Event() {
	case "pull_request_target", "workflow_run", "issue_comment":
		return true
	case "pull_request", "pull_request_review", "pull_request_review_comment":
		return !r.sameRepository()
	}
	return false
}

// sameRepository says whether the pull request's branch lives in the repository that it wants to change. A fork that was
// deleted since is null in the payload.
func (r *Runner) sameRepository() bool {
	// Of the error, only what leaves no context behind matters here; the rest is about numbers that are not asked for.
	event, _ := r.action.Context()
	if event == nil {
		return false
	}
	head, base := repository(event.Event, "head"), repository(event.Event, "base")
	return head != "" && head == base
}

// repository is the full name of the repository on one side of the payload's pull request, or "".
func repository(payload map[string]any, side string) string {
	var at any = payload
	for _, field := range []string{"pull_request", side, "repo", "full_name"} {
		object, _ := at.(map[string]any)
		at = object[field]
	}
	name, _ := at.(string)
	return name
}

// Public says whether everybody can read the repository, and so send it pull requests from forks. Where the payload does
// not say, it is taken to be public.
func (r *Runner) Public() bool {
	event, _ := r.action.Context() // as in sameRepository
	if event == nil {
		return true
	}
	repository, _ := event.Event["repository"].(map[string]any)
	private, ok := repository["private"].(bool)
	return !ok || !private
}
