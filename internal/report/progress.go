package report

// Progress is told how images move while a run goes on. Safe for concurrent use.
type Progress interface {
	// Begin announces that an image of total bytes begins to move.
	Begin(name string, total int64) Track
	// Done announces the row of an image, whether it moved or not.
	Done(row Image)
}

// Track follows one image that moves. Add may be called from any goroutine; End ends the track.
type Track interface {
	Add(n int)
	End()
}

// Silent is a Progress that shows nothing.
type Silent struct{}

var _ Progress = Silent{}

// Begin implements Progress.
func (Silent) Begin(string, int64) Track { return silentTrack{} }

// Done implements Progress.
func (Silent) Done(Image) {}

type silentTrack struct{}

func (silentTrack) Add(int) {}
func (silentTrack) End()    {}
