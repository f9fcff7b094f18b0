package wire

import (
	"runtime/debug"
	"time"

	"golang.org/x/mod/semver"
)

// ThisBuild returns the build of the running program, whose version is given.
func ThisBuild(version string) Build {
	b := Build{Version: version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				b.Time = s.Value
			}
		}
	}
	return b
}

// Newer reports whether b is newer than another build: by their versions if both are semantic
// versions, otherwise by their times. It returns false if neither is known.
func (b Build) Newer(than Build) bool {
	if semver.IsValid(b.Version) && semver.IsValid(than.Version) {
		return semver.Compare(b.Version, than.Version) > 0
	}
	ours, err := time.Parse(time.RFC3339, b.Time)
	theirs, err2 := time.Parse(time.RFC3339, than.Time)
	return err == nil && err2 == nil && ours.After(theirs)
}
