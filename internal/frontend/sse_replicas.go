package frontend

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

// requestPost is the kind of requests with what a client over HTTP+SSE has posted at a replica that does
// not have its stream.
const requestPost = "post"

// postTimeout bounds how long a posted message may take to the replica with the stream. An initialize is
// answered meanwhile.
const postTimeout = 30 * time.Second

// postedMessage is a message that a client has posted at another replica.
type postedMessage struct {
	Peer    string `json:"peer"`
	Owner   []byte `json:"owner"` // the digest of the principal, see ownerOf
	Request string `json:"request"`
	Body    []byte `json:"body"`
}

// postReply is the answer to a POST at another replica.
type postReply struct {
	Status  int      `json:"status"`       // 202 if the message was accepted
	ID      wire.Raw `json:"id,omitempty"` // of the request that was not accepted
	Code    int64    `json:"code,omitempty"`
	Message string   `json:"message,omitempty"`
	Data    wire.Raw `json:"data,omitempty"`
}

// newPeerID returns an unguessable id. It ends with the name of the replica that has the stream.
func (s *Server) newPeerID() string {
	id := session.NewID()
	if peers := s.options.Sessions.Replicas; peers != nil {
		id += "." + peers.Name()
	}
	return id
}

// maxReplicaName bounds the names of replicas in ids of peers, in bytes.
const maxReplicaName = 64

// replicaOfPeer returns the name of the other replica that the id of a peer names, "" if there is none. It
// may not exist, and a replica that has just started is not among the others yet: Call finds out.
func (s *Server) replicaOfPeer(id string) string {
	_, name, _ := strings.Cut(id, ".")
	peers := s.options.Sessions.Replicas
	if peers == nil || name == peers.Name() || len(name) > maxReplicaName {
		return ""
	}
	return name
}

// postStatus returns the status of the answer to a message: why is why the peer has not accepted it, or nil.
func postStatus(why *wire.Error) int {
	switch why {
	case nil:
		return http.StatusAccepted
	case errShuttingDown, errGatewayBusy:
		return http.StatusServiceUnavailable
	case errPeerBusy:
		return http.StatusTooManyRequests
	case errExpiresSooner, errChannelGone:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// answerPost answers a POST over HTTP+SSE.
func (s *Server) answerPost(w http.ResponseWriter, r *http.Request, principal *call.Principal, status int, id wire.ID, why *wire.Error) {
	switch status {
	case http.StatusAccepted:
		writeAccepted(w)
	case http.StatusNotFound:
		if why == nil || why.Message == "" {
			s.refuseUnknownSession(w, r, id, principal, session.ErrUnknown)
			return
		}
		s.refuse(w, r, principal, &refusal{status, why.Message, id})
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		s.refuseBusy(w, r, principal, id, status, why.Message)
	default:
		s.rejectMessage(w, r, principal, id, http.StatusBadRequest, why)
	}
}

// errStreamAway answers a message for a stream whose replica does not answer.
var errStreamAway = wire.Errorf(wire.CodeInternal, "the replica that has the stream of this session cannot be reached")

// postElsewhere passes a message to the replica that has the stream of the peer, and answers the POST.
func (s *Server) postElsewhere(w http.ResponseWriter, r *http.Request, principal *call.Principal, to string, msg postedMessage) {
	ctx, cancel := context.WithTimeout(r.Context(), postTimeout)
	defer cancel()
	data, err := s.options.Sessions.Replicas.Call(ctx, to, requestPost, encode(msg), nil)
	var reply postReply
	switch {
	case errors.Is(err, ErrReplicaGone): // and the stream with it
		s.answerPost(w, r, principal, http.StatusNotFound, wire.ID{}, nil)
		return
	case err != nil, json.Unmarshal(data, &reply) != nil:
		s.answerPost(w, r, principal, http.StatusServiceUnavailable, wire.ID{}, errStreamAway)
		return
	}
	id := wire.ID{}
	if reply.ID != nil {
		id = wire.IDOf(string(reply.ID))
	}
	s.answerPost(w, r, principal, reply.Status, id, &wire.Error{Code: reply.Code, Message: reply.Message, Data: reply.Data})
}

// handlePost gives a peer of this replica what its client has posted at another one.
func (s *Server) handlePost(_ context.Context, request []byte, _ func([]byte) error) ([]byte, error) {
	var msg postedMessage
	if err := json.Unmarshal(request, &msg); err != nil {
		return nil, err
	}
	p := s.peers.find(msg.Peer)
	if p == nil || subtle.ConstantTimeCompare(msg.Owner, ownerOf(p.principal)) == 0 {
		return encode(postReply{Status: http.StatusNotFound}), nil
	}
	h := &reservation{s: s, share: p.share}
	defer h.release()
	id, why := p.receive(msg.Body, msg.Request, h)
	reply := postReply{Status: postStatus(why)}
	if why != nil {
		reply.Code, reply.Message, reply.Data = why.Code, why.Message, why.Data
		if !id.IsZero() {
			reply.ID = id.Append(nil)
		}
	}
	return encode(reply), nil
}
