package demo

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// version is the version in the serverInfo of every demo server: that of the demo's
// behavior, not of the gateway.
const version = "1.0.0"

// Server is one built-in upstream. Use [Servers] to make them.
type Server struct {
	Name        string // the upstream's name, fit for a configuration key
	Title       string // for people, a few words
	Description string // for people, one sentence

	server *mcp.Server
}

// Servers returns a new set of the built-in upstreams in the order of their
// names, each with its own fresh state.
func Servers() []Server {
	return []Server{newCafe(), newClock(), newNotes()}
}

// Start begins one session and returns immediately. The peer writes its messages to
// in and reads the server's from out, one JSON-RPC message a line.
//
// Neither stream buffers: a write waits until the server reads it, and the
// server waits until its output is read, so in and out need a goroutine each.
//
// The session ends when in is closed (calls that still run are canceled), when
// out is closed and the server writes to it, when a line is not JSON-RPC, or
// when ctx ends, which also releases a server whose output nobody reads. Then
// out gives io.EOF and writes to in fail with io.ErrClosedPipe.
//
// wait returns after everything that Start began has ended: nil when the peer closed
// in or out, ctx's error when ctx ended, else what broke the session. It may be
// called any number of times, also concurrently.
func (s Server) Start(ctx context.Context) (in io.WriteCloser, out io.ReadCloser, wait func() error) {
	inReader, inWriter := io.Pipe()
	outReader, outWriter := io.Pipe()
	// The SDK waits for its handlers before it closes the transport, and a
	// handler can be blocked in a write that nobody reads.
	released := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(released)
		outWriter.Close()
	})

	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		// The transport closes both streams when the session ends.
		err = s.server.Run(ctx, &mcp.IOTransport{Reader: inReader, Writer: outWriter})
		if !stop() {
			<-released
		} else if errors.Is(err, io.ErrClosedPipe) {
			err = nil // a peer may close out while the server writes a notification
		}
	}()
	return inWriter, outReader, func() error {
		<-done
		return err
	}
}
