package broker

import "runtime/debug"

// release is the version this source tree stands for.
const release = "0.1.0"

// Version returns the release and, when the build recorded it, the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return release + "+" + s.Value[:12]
		}
	}
	return release
}
