package replica

import (
	"encoding/binary"
	"errors"
)

// frameKind says what a frame is for.
type frameKind byte

const (
	frameHello   frameKind = iota + 1 // shows the number of the last frame, and acknowledges
	frameBegin                        // caller → handler: a request
	frameCancel                       // caller → handler: the caller does not wait any more
	frameMessage                      // caller → handler
	frameBack                         // handler → caller: a message
	frameReply                        // handler → caller: the reply
	frameFailed                       // handler → caller: the text of an error
	frameRefused                      // handler → caller: the request was not handled; the reason
	frameBye                          // the sender ends, with all its conversations
	frameNote                         // to all replicas
)

const frameVersion = 1

// position is the place of a frame among those from one replica to another.
type position struct {
	link   uint64 // identifies a sequence of frames; a later one of the same sender is greater
	number uint64 // from 1
}

// after reports whether p is behind q.
func (p position) after(q position) bool {
	return p.link > q.link || p.link == q.link && p.number > q.number
}

// frame is one entry of an inbox or of the notes.
type frame struct {
	kind frameKind
	from string // the name of the sender
	at   position
	// ack acknowledges all frames of the receiver up to one.
	ack position
	// since says up to where the sender had received frames when the link began. It has ended all
	// conversations that had begun by then.
	since position
	id    uint64 // the conversation, among those that its caller has begun
	topic string // of a request or note: its kind
	// stored is the length of a body that is not in the frame but in a value of the store, or 0.
	stored uint64
	body   []byte
}

var errFrame = errors.New("malformed frame")

// maxName bounds the names in frames.
const maxName = 128

// encode returns the frame as bytes.
func (f *frame) encode() []byte {
	out := make([]byte, 0, 64+len(f.from)+len(f.topic)+len(f.body))
	out = append(out, frameVersion, byte(f.kind))
	for _, s := range []string{f.from, f.topic} {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	for _, n := range []uint64{f.at.link, f.at.number, f.ack.link, f.ack.number, f.since.link, f.since.number, f.id, f.stored} {
		out = binary.AppendUvarint(out, n)
	}
	return append(out, f.body...)
}

// decode parses a frame. Its body is a part of data.
func decode(data []byte) (*frame, error) {
	if len(data) < 2 || data[0] != frameVersion || data[1] < byte(frameHello) || data[1] > byte(frameNote) {
		return nil, errFrame
	}
	f := &frame{kind: frameKind(data[1])}
	rest := data[2:]
	for _, s := range []*string{&f.from, &f.topic} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > maxName || uint64(len(rest)-size) < n {
			return nil, errFrame
		}
		*s, rest = string(rest[size:size+int(n)]), rest[size+int(n):]
	}
	for _, v := range []*uint64{&f.at.link, &f.at.number, &f.ack.link, &f.ack.number, &f.since.link, &f.since.number, &f.id, &f.stored} {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return nil, errFrame
		}
		*v, rest = n, rest[size:]
	}
	if f.from == "" || f.kind != frameNote && f.kind != frameHello && f.at.number == 0 {
		return nil, errFrame
	}
	f.body = rest
	return f, nil
}
