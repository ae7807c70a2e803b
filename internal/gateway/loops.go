package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// markPrefix begins the entries for configuration files among the ids of gateways that
// started one another.
const markPrefix = "config-"

// detectLoops sets up the detection of loops. A gateway on a pipe was started by its
// client, which may be a gateway: its environment names the gateways that started one
// another. A gateway that was started from its own configuration would start itself again,
// and is refused.
func (g *Gateway) detectLoops(source string) error {
	var started []string
	if g.stdio {
		for word := range strings.SplitSeq(os.Getenv(protocol.VariableVia), ",") {
			if strings.HasPrefix(word, markPrefix) {
				g.configMarks = append(g.configMarks, word)
			} else {
				started = append(started, word)
			}
		}
	}
	if source != "" {
		path, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(path))
		mark := markPrefix + hex.EncodeToString(sum[:16])
		if slices.Contains(g.configMarks, mark) {
			return fmt.Errorf("this gateway was started by a gateway with the same configuration, %s: one of its entries starts the gateway itself; remove that entry, or give the inner gateway a file of its own with -c", path)
		}
		g.configMarks = append(g.configMarks, mark)
	}
	var err error
	g.loopDetector, err = upstream.NewLoopDetector(strings.Join(started, ","))
	return err
}

// viaEnvironment returns the environment variable that tells started programs which
// gateways are before them.
func (g *Gateway) viaEnvironment() string {
	return protocol.VariableVia + "=" + strings.Join(append([]string{g.loopDetector.Sent()}, g.configMarks...), ",")
}

// callHandler hands calls to the router. It tells gateways that are clients which gateways
// are behind this one.
type callHandler struct {
	*router.Router
	loopDetector *upstream.LoopDetector
	epochs       *epochs
	onlyClient   *upstream.OnlyClient // nil if there may be several clients
}

// Handle implements frontend.Handler.
func (h callHandler) Handle(ctx context.Context, c *call.Call) (call.Result, error) {
	defer h.epochs.enter().leave()
	switch {
	case h.onlyClient == nil:
	case c.Client.Era() == wire.EraModern:
		h.onlyClient.Set(c.Client) // only the first request counts
	case c.Method == wire.MethodDiscover:
		h.onlyClient.Introduce(c.Client) // the answer to its initialize waits for upstreams, which wait for it
	}
	via := ""
	if c.Method == wire.MethodDiscover {
		via = protocol.ViaIn(c.Params)
	}
	if via == "" {
		return h.Router.Handle(ctx, c)
	}
	if h.loopDetector.Returns(via) {
		return call.Result{}, wire.Errorf(wire.CodeInternal, upstream.ReasonReturned)
	}
	res, err := h.Router.Handle(ctx, c)
	if err == nil {
		res.Raw = wire.SetMember(res.Raw, "_meta", wire.SetMember(wire.Raw(`{}`), protocol.MetaVia, wire.String(h.loopDetector.Said())))
	}
	return res, err
}

// refuseLoops refuses requests that the gateway itself has sent, and tells other gateways
// which gateways are behind this one.
func (g *Gateway) refuseLoops(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		via := r.Header[protocol.HeaderVia]
		if len(via) > 0 {
			w.Header()[protocol.HeaderVia] = []string{g.loopDetector.Said()}
			if g.loopDetector.Returns(strings.Join(via, ",")) {
				data := wire.SetMember(wire.Raw(`{}`), "requestId", wire.String(requestid.Of(w)))
				m := wire.Message{Error: wire.Errorf(wire.CodeInternal, upstream.ReasonReturned).WithData(data)}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusLoopDetected)
				_, _ = w.Write(m.Append(nil)) // the client is this process
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
