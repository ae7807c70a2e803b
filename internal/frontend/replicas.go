package frontend

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

// Replicas are the other servers that share the keys of sessions. The methods are called concurrently.
type Replicas interface {
	// Name returns the name of this server among the replicas: letters and digits.
	Name() string
	// Others returns the names of the other servers.
	Others() []string
	// Tell passes a note to all other replicas, and does not block. It may get lost.
	Tell(kind string, note []byte)
	// Call passes a request to a replica and returns its reply. receive gets the messages that come
	// before the reply; it may be nil. An error that wraps ErrReplicaGone means that the replica has
	// ended, and has not got the request.
	Call(ctx context.Context, to, kind string, request []byte, receive func(msg []byte)) ([]byte, error)
}

// ErrReplicaGone is the error of [Replicas] for a replica that has ended.
var ErrReplicaGone = errors.New("the replica has ended")

// The kinds of notes and requests among replicas.
const (
	noteFromClient = "from-client" // a notification that a client has posted at another replica
	noteToClient   = "to-client"   // a notification for clients that may have no stream at the other replica
	requestAnswer  = "answer"      // the answer of a client to an ask of this replica
	requestStream  = "has-stream"  // whether a session has a stream at this replica
	requestAsk     = "ask"         // to ask the client of a session on its stream at this replica
)

// answerTimeout bounds how long an answer may take to another replica.
const answerTimeout = 5 * time.Second

// errNotHere answers a request about what this replica does not have, or the principal does not own.
var errNotHere = errors.New("there is no such session at this replica")

// Notes returns what to do with the notes of other replicas, by their kind. The functions do not block.
func (s *Server) Notes() map[string]func(note []byte) {
	return map[string]func([]byte){
		noteFromClient: s.heardFromClient,
		noteToClient:   s.heardForClient,
	}
}

// RequestHandler answers a request of another replica. send sends a message before the reply.
type RequestHandler func(ctx context.Context, request []byte, send func(msg []byte) error) ([]byte, error)

// Requests returns the handlers of requests of other replicas, by their kind.
func (s *Server) Requests() map[string]RequestHandler {
	return map[string]RequestHandler{
		requestAnswer: s.handleAnswer,
		requestStream: s.handleHasStream,
		requestAsk:    s.handleAsk,
		requestResume: s.handleResume,
		requestMove:   s.handleMove,
		requestPost:   s.handlePost,
	}
}

// sessionMessage is a message in a session, on its way from one replica to another.
type sessionMessage struct {
	Session string `json:"session,omitempty"`
	// Principal is the key of a principal in a notification for all its clients.
	Principal string `json:"principal,omitempty"`
	// Owner is the digest of the principal whose request has brought the message; none in a message
	// to the client.
	Owner   []byte   `json:"owner,omitempty"`
	Message wire.Raw `json:"message"`
}

// ownerOf returns what names a principal among replicas.
func ownerOf(p *call.Principal) []byte {
	sum := sha256.Sum256([]byte(p.Key()))
	return sum[:]
}

// owned returns the session with this id, if it is here and belongs to the owner, or nil.
func (s *Server) owned(id string, owner []byte) *session.Session {
	sess := s.sessions.Find(id)
	if sess == nil || subtle.ConstantTimeCompare(owner, ownerOf(sess.Principal)) == 0 {
		return nil
	}
	return sess
}

// receive handles a notification or a response of a client, here and where it belongs.
func (s *Server) receive(sess *session.Session, m *wire.Message) {
	if sess.Receive(m) && sess.Replica != "" {
		s.passOn(sess, m)
	}
}

// failAsk answers the ask with this id by an error, because the client's answer cannot be read. It
// reports false if id is the zero ID: then the message that could not be read was not a response.
func (s *Server) failAsk(sess *session.Session, id wire.ID, why *wire.Error) bool {
	if id.IsZero() {
		return false
	}
	s.receive(sess, &wire.Message{ID: id, Error: wire.Errorf(why.Code, "the client's answer cannot be read: %s", why.Message)})
	return true
}

// passOn passes a message of a client to the replicas that it is for. The session has authenticated its
// sender.
func (s *Server) passOn(sess *session.Session, m *wire.Message) {
	peers := s.options.Sessions.Replicas
	msg := sessionMessage{Session: sess.ID(), Owner: ownerOf(sess.Principal), Message: m.Append(nil)}
	if !m.IsResponse() {
		peers.Tell(noteFromClient, encode(msg))
		return
	}
	to, ok := session.AskedBy(m.ID)
	if !ok || to == sess.Replica {
		return
	}
	ctx, cancel := context.WithTimeout(s.tasks.ctx, answerTimeout)
	defer cancel()
	if _, err := peers.Call(ctx, to, requestAnswer, encode(msg), nil); err != nil {
		s.ratelog.Warn("the answer of a client did not reach the replica that has asked", zap.String("replica", clip(to)), zap.Error(err))
	}
}

func (s *Server) heardFromClient(note []byte) {
	msg, m, err := s.decode(note)
	if err != nil {
		return
	}
	if sess := s.owned(msg.Session, msg.Owner); sess != nil && m.IsNotification() {
		sess.Receive(&m)
	}
}

func (s *Server) handleAnswer(_ context.Context, request []byte, _ func([]byte) error) ([]byte, error) {
	msg, m, err := s.decode(request)
	if err != nil {
		return nil, err
	}
	sess := s.owned(msg.Session, msg.Owner)
	if sess == nil || !m.IsResponse() {
		return nil, errNotHere
	}
	sess.Receive(&m) // too late is no error
	return nil, nil
}

// decode returns a message of another replica, and what is in it.
func (s *Server) decode(data []byte) (sessionMessage, wire.Message, error) {
	msg, err := decodeMessage(data)
	if err != nil {
		return msg, wire.Message{}, err
	}
	m, err := wire.Parse(msg.Message, s.options.Limits.JSON)
	return msg, m, err
}

func decodeMessage(data []byte) (msg sessionMessage, err error) {
	err = json.Unmarshal(data, &msg)
	return msg, err
}

// encode encodes what one replica tells another. It cannot fail: messages are valid JSON.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
