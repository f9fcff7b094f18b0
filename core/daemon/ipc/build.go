package ipc

import (
	"cmp"
	"runtime/debug"
	"time"

	"golang.org/x/mod/semver"
)

// ThisBuild returns the build of the running program. If version is empty, it is the version of the
// module or, without one, the commit.
func ThisBuild(version string) Build {
	b := Build{Version: cmp.Or(version, "unknown")}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	commit := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = "+" + s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			b.Time = s.Value
		}
	}
	if v := info.Main.Version; version == "" && v != "" && v != "(devel)" {
		b.Version = v
	} else if version == "" {
		b.Version = "devel" + commit
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
