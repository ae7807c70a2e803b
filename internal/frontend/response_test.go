package frontend

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// pieceWriter records the writes that begin after the head, with the time that each has.
type pieceWriter struct {
	recorder
	deadline time.Time
	sizes    []int
	times    []time.Duration
}

func (w *pieceWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *pieceWriter) WritePieces(pieces ...[]byte) error {
	n := 0
	for _, b := range pieces {
		n += len(b)
	}
	return w.add(n)
}

func (w *pieceWriter) Write(b []byte) (int, error) { return len(b), w.add(len(b)) }

func (w *pieceWriter) add(n int) error {
	w.sizes, w.times = append(w.sizes, n), append(w.times, time.Until(w.deadline))
	return nil
}

// An answer is written in pieces. A short end has no write of its own: it goes with the last
// piece, which gets time in proportion.
func TestPiecesOfAnswers(t *testing.T) {
	const piece, patience = writePiece, writeTimeout
	for _, tt := range []struct {
		size  int
		sizes []int
		times []time.Duration
	}{
		{1000, []int{1000}, []time.Duration{patience}},
		{piece, []int{piece}, []time.Duration{patience}},
		{piece * 5 / 4, []int{piece * 5 / 4}, []time.Duration{patience * 5 / 4}},
		{piece * 3 / 2, []int{piece * 3 / 2}, []time.Duration{patience * 3 / 2}},
		{piece*3/2 + 1, []int{piece, piece/2 + 1}, []time.Duration{patience, patience}},
		{piece * 3, []int{piece, piece, piece}, []time.Duration{patience, patience, patience}},
		{piece*3 + 8, []int{piece, piece, piece + 8}, []time.Duration{patience, patience, patience + patience*8/piece}},
	} {
		synctest.Test(t, func(t *testing.T) {
			frame := len(`{"jsonrpc":"2.0","id":1,"result":""}`)
			s := New(Options{Info: wire.Raw(`{}`), Handler: handlerFunc(func(context.Context, *call.Call) (call.Result, error) {
				return own(`"` + strings.Repeat("x", tt.size-frame) + `"`)
			})})
			w := &pieceWriter{recorder: recorder{header: make(http.Header), done: make(chan struct{})}}
			s.ServeHTTP(w, callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, wire.EraLegacy))
			if !slices.Equal(w.sizes, tt.sizes) || !slices.Equal(w.times, tt.times) {
				t.Errorf("%d bytes were written as %v within %v, want %v within %v", tt.size, w.sizes, w.times, tt.sizes, tt.times)
			}
		})
	}
}
