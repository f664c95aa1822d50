// Package compress holds the four codecs that record batches use: gzip,
// snappy, LZ4 and zstd, in the framings that Kafka clients write.
//
// Input comes from strangers, so nothing is believed: readers stream, stop at
// a cap on the bytes they hand out, ask a snappy block for its declared length
// before they make room for it, and bound the window that a zstd frame may ask
// for. Whatever the input, a reader holds less than 16 MiB.
//
// Readers and writers are pooled. A Reader or Writer has one user at a time
// and is given back by Close; the package starts no goroutine.
//
// The package knows nothing of batches, disks or sockets.
package compress
