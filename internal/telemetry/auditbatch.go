package telemetry

import "sync"

// batch holds the lines of one write.
type batch struct {
	text    []byte // a line break, so that a torn line can be ended, and the lines
	lines   []lineEnd
	kept    int // how many of the first lines are from writes that failed
	awaited int // how many of the lines goroutines wait for
	waiters []*waiter
}

// lineEnd is the end of a line in the text.
type lineEnd struct {
	at     int
	before bool // a goroutine waits for it
}

// waiter is a goroutine that waits until its line is written.
type waiter struct {
	line    int
	verdict chan verdict
}

// verdict ends the wait.
type verdict struct {
	lead bool // the goroutine is the writer now
	err  error
}

// noLine is the number of no line: the wait ends with the batch.
const noLine = -1

var waiters = sync.Pool{New: func() any { return &waiter{verdict: make(chan verdict, 1)} }}

func newBatch() *batch { return &batch{text: []byte{'\n'}} }

func (b *batch) empty() bool { return len(b.lines) == 0 }

// start returns where a line begins in the text.
func (b *batch) start(line int) int {
	if line == 0 {
		return 1
	}
	return b.lines[line-1].at
}

// add adds a line and returns its number.
func (b *batch) add(line []byte, before bool) int {
	b.text = append(b.text, line...)
	b.lines = append(b.lines, lineEnd{len(b.text), before})
	if before {
		b.awaited++
	}
	return len(b.lines) - 1
}

// wait adds a goroutine that waits for a line.
func (b *batch) wait(line int) *waiter {
	w := waiters.Get().(*waiter)
	w.line = line
	b.waiters = append(b.waiters, w)
	return w
}

// answer ends the wait of all goroutines: the first lines are committed, the others failed.
func (b *batch) answer(committed int, err error) {
	for _, w := range b.waiters {
		v := verdict{err: err}
		if w.line < committed {
			v.err = nil
		}
		w.verdict <- v
	}
	b.waiters = b.waiters[:0]
}

// lead makes one of the goroutines that wait the writer, and reports whether there is one.
func (b *batch) lead() bool {
	last := len(b.waiters) - 1
	if last < 0 {
		return false
	}
	b.waiters[last].verdict <- verdict{lead: true}
	b.waiters = b.waiters[:last]
	return true
}

// keep adds the lines of a failed batch that are not written and that nobody waits for. It
// returns how many of them had not failed before.
func (b *batch) keep(failed *batch, written int) (fresh int) {
	for i := written; i < len(failed.lines); i++ {
		if failed.lines[i].before {
			continue
		}
		b.add(failed.text[failed.start(i):failed.lines[i].at], false)
		if i >= failed.kept {
			fresh++
		}
	}
	b.kept = len(b.lines)
	return fresh
}

// join adds the lines of another batch and the goroutines that wait for them, without the first
// lines.
func (b *batch) join(other *batch, without int) {
	shift := len(b.lines) - without
	for i := without; i < len(other.lines); i++ {
		b.add(other.text[other.start(i):other.lines[i].at], other.lines[i].before)
	}
	for _, w := range other.waiters {
		if w.line != noLine {
			w.line += shift
		}
		b.waiters = append(b.waiters, w)
	}
}

// reset removes everything. It keeps the memory of a batch of usual size.
func (b *batch) reset() {
	if cap(b.text) > 4*maxGathered {
		b.text = []byte{'\n'}
	}
	b.text, b.lines, b.waiters, b.kept, b.awaited = b.text[:1], b.lines[:0], b.waiters[:0], 0, 0
}
