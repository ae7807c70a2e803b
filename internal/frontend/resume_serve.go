package frontend

import (
	"context"
	"encoding/json"
	"slices"

	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
)

// maxPart bounds the messages in which events go to another replica, in bytes.
const maxPart = 256 << 10

// handleResume sends what is left of the stream of a call to the replica that the client has come to. It
// replies when the stream ends here.
func (s *Server) handleResume(ctx context.Context, request []byte, send func([]byte) error) ([]byte, error) {
	sess, st, q, err := s.requestedStream(request)
	if err != nil {
		return nil, err
	}
	if st == nil || !st.ForCall() {
		return encode(resumedOf(stream.ErrUnknownEvent)), nil
	}
	c, err := st.Resume(q.After.Number)
	if err != nil {
		return encode(resumedOf(err)), nil
	}
	c.Run(ctx, partsWriter(send), stream.Ends{})
	sess.Touch()
	return encode(&resumed{}), nil
}

// handleMove hands a stream over to the replica that the client has come to.
func (s *Server) handleMove(_ context.Context, request []byte, send func([]byte) error) ([]byte, error) {
	sess, st, q, err := s.requestedStream(request)
	if err != nil {
		return nil, err
	}
	if st == nil || st.ForCall() {
		return encode(resumedOf(stream.ErrUnknownEvent)), nil
	}
	events, moved, err := sess.Move(st, q.After.Number, q.To, q.Lost)
	for _, data := range events {
		if err := sendParts(send, data); err != nil { // the client can ask again
			return nil, err
		}
	}
	reply := resumedOf(err)
	reply.Moved = moved
	return encode(reply), nil
}

// requestedStream returns the stream that a request of another replica is about, nil if this one does not
// have it, or the session's owner is another.
func (s *Server) requestedStream(request []byte) (*session.Session, *stream.Stream, resumption, error) {
	var q resumption
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, nil, q, err
	}
	sess := s.owned(q.Session, q.Owner)
	if sess == nil {
		return nil, nil, q, nil
	}
	st, err := sess.Replay.Find(q.After)
	if err != nil {
		return sess, nil, q, nil
	}
	return sess, st, q, nil
}

// partsWriter is a stream.Writer to another replica: its messages are parts of the text. The first one is
// empty and says that the stream is resumed.
type partsWriter func(msg []byte) error

// Open implements stream.Writer.
func (send partsWriter) Open() { _ = send(nil) } // a failure shows with the next message

// Write implements stream.Writer.
func (send partsWriter) Write(text stream.Pieces) bool {
	for part := range slices.Chunk(slices.Concat(text[:]...), maxPart) {
		if send(part) != nil {
			return false
		}
	}
	return true
}

// sendParts sends one event in messages that begin with whether another part of it follows.
func sendParts(send func([]byte) error, data []byte) error {
	for {
		n := min(len(data), maxPart)
		more := byte(0)
		if n < len(data) {
			more = 1
		}
		if err := send(append([]byte{more}, data[:n]...)); err != nil || more == 0 {
			return err
		}
		data = data[n:]
	}
}

// assembler puts the parts of sendParts together.
type assembler struct {
	whole [][]byte
	part  []byte
}

func (a *assembler) add(msg []byte) {
	if len(msg) == 0 {
		return
	}
	a.part = append(a.part, msg[1:]...)
	if msg[0] == 0 {
		a.whole = append(a.whole, a.part)
		a.part = nil
	}
}
