// Package repair mends the logs of a stopped broker by what package verify found:
// files that are derived from the segments are removed and made anew by package
// log, the torn end of a last write is cut off, and, only if it is told to, a log
// is cut where damage begins. What is cut is kept first, with a receipt (package
// receipt). A plan is made before anything is written, and can be shown.
//
// A crash in the middle leaves a log that can be repaired again.
package repair
