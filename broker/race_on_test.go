//go:build race

package broker

// raceEnabled says that the race detector is on, under which pools forget.
const raceEnabled = true
