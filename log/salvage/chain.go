package salvage

// chainMax bounds how many runs of a file are weighed against each other.
const chainMax = 20_000

// settle marks the strays among the runs of one file, which are in the order of
// the file, and joins those that are none.
func settle(runs []Run) []Run {
	if !rises(runs) {
		for from := 0; from < len(runs); from += chainMax {
			markStrays(runs[from:min(from+chainMax, len(runs))])
		}
	}
	var out []Run
	for _, r := range runs {
		if n := len(out); n > 0 && !r.stray && !out[n-1].stray && out[n-1].Pos+out[n-1].Bytes == r.Pos && fits(&out[n-1], &r) {
			out[n-1].join(r)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// fits reports whether b can stand behind a in a log.
func fits(a, b *Run) bool { return a.Last < b.First && a.LastEpoch <= b.FirstEpoch }

// rises reports whether each run fits behind the one before.
func rises(runs []Run) bool {
	for i := 1; i < len(runs); i++ {
		if !fits(&runs[i-1], &runs[i]) {
			return false
		}
	}
	return true
}

// join adds a run that lies right behind.
func (r *Run) join(b Run) {
	r.Bytes += b.Bytes
	r.Last, r.LastEpoch = b.Last, b.LastEpoch
	r.Batches += b.Batches
	r.Records += b.Records
	r.sparse = true
}

// markStrays finds the chain with the most batches in which offsets and epochs
// rise. What is not in it is a stray: a batch that was written twice, or whose
// offset or epoch, which no checksum covers, was changed.
func markStrays(runs []Run) {
	weight, before := make([]int64, len(runs)), make([]int, len(runs))
	best := -1
	for i := range runs {
		weight[i], before[i] = runs[i].Batches, -1
		for j := range i {
			if fits(&runs[j], &runs[i]) && weight[j]+runs[i].Batches > weight[i] {
				weight[i], before[i] = weight[j]+runs[i].Batches, j
			}
		}
		runs[i].stray = true
		if best < 0 || weight[i] > weight[best] {
			best = i
		}
	}
	for ; best >= 0; best = before[best] {
		runs[best].stray = false
	}
}
