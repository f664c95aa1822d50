package host

import "sync"

// diskWorkers is how many logs of one directory wait for its disk at a time, at a
// start and at a stop: a file system commits what waits together.
const diskWorkers = 32

// parallel runs fn(0..n-1) on at most workers goroutines and waits.
func (m *ReplicaManager) parallel(workers, n int, fn func(i int)) {
	if workers <= 1 || n <= 1 || m.deps.Group == nil {
		for i := range n {
			fn(i)
		}
		return
	}
	var done sync.WaitGroup
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	m.share(workers, all, fn, &done)
	done.Wait()
}

// parallelIn runs fn(0..n-1) on at most diskWorkers goroutines a directory, those of
// all directories side by side so that a slow disk keeps back no other's, and waits.
func (m *ReplicaManager) parallelIn(n int, dir func(i int) *Dir, fn func(i int)) {
	if n <= 1 || m.deps.Group == nil {
		for i := range n {
			fn(i)
		}
		return
	}
	var dirs []*Dir
	of := make(map[*Dir][]int)
	for i := range n {
		d := dir(i)
		if of[d] == nil {
			dirs = append(dirs, d)
		}
		of[d] = append(of[d], i)
	}
	var done sync.WaitGroup
	for _, d := range dirs {
		m.share(diskWorkers, of[d], fn, &done)
	}
	done.Wait()
}

// share starts at most workers goroutines that run fn for each of list.
func (m *ReplicaManager) share(workers int, list []int, fn func(i int), done *sync.WaitGroup) {
	var mu sync.Mutex
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(list) {
			return 0, false
		}
		next++
		return list[next-1], true
	}
	for range min(workers, len(list)) {
		done.Add(1)
		m.deps.Group.Go("partition loader", func() {
			defer done.Done()
			for i, ok := take(); ok; i, ok = take() {
				fn(i)
			}
		})
	}
}
