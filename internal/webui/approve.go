package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcpgateway/internal/pins"
	"mcpgateway/internal/webui/difference"
)

var approvePage = &page{path: "/approve", name: "approve", title: "Approve", data: (*Console).approvals}

// Pins are the definitions of tools that wait for a decision of a person.
type Pins struct {
	// Held returns the definitions that are not published, by upstream in the order of the
	// configuration. pinned says that any upstream is pinned.
	Held func() (held []HeldTools, pinned bool, err error)
	// Decide accepts or refuses the definition with a digest. The gateway publishes an accepted one at
	// once. The error is [pins.ErrNotHeld] if the upstream lists another definition by now.
	Decide func(ctx context.Context, upstream, tool, digest string, accept bool) error
}

// HeldTools are the definitions of one upstream that are not published.
type HeldTools struct {
	Upstream string
	Tools    []pins.Held
}

// maxHeld bounds the definitions on the page.
const maxHeld = 50

// approveView has the data of the page.
type approveView struct {
	Query    string
	Pinned   bool // an upstream has pin: true
	Cards    []heldCard
	Matches  int
	All      int
	Refused  int // of All
	Done     string
	DoneTool string
}

// More returns how many definitions match and are not shown.
func (v *approveView) More() int { return v.Matches - len(v.Cards) }

// heldCard is one definition that waits for a decision.
type heldCard struct {
	pins.Held
	Upstream string
	Changes  []difference.Change
	Same     int  // members that do not differ
	Unknown  bool // the text of the accepted definition is not known
}

func (c *Console) approvals(r *http.Request) (any, error) {
	held, pinned, err := c.Pins.Held()
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	v := &approveView{Query: strings.TrimSpace(query.Get("q")), Pinned: pinned, DoneTool: clip(query.Get("tool"), maxLogged)}
	if done := query.Get("done"); done == "accepted" || done == "refused" {
		v.Done = done
	}
	words := strings.Fields(strings.ToLower(v.Query))
	var cards []heldCard
	for _, of := range held {
		for _, tool := range of.Tools {
			v.All++
			if tool.Refused {
				v.Refused++
			}
			if containsAll(strings.ToLower(of.Upstream+"\n"+tool.Tool), words) {
				cards = append(cards, heldCard{Held: tool, Upstream: of.Upstream})
			}
		}
	}
	v.Matches = len(cards)
	slices.SortStableFunc(cards, func(a, b heldCard) int { return cmp.Compare(rank(a), rank(b)) })
	v.Cards = cards[:min(len(cards), maxHeld)]
	for i := range v.Cards {
		card := &v.Cards[i]
		card.Unknown = !card.New && card.Was == nil
		card.Changes, card.Same = difference.Compare(card.Was, card.Now)
	}
	return v, nil
}

// rank puts changed definitions before new ones, and those that a person has refused last.
func rank(c heldCard) int {
	switch {
	case c.Refused:
		return 2
	case c.New:
		return 1
	}
	return 0
}

var decideAction = &action{path: "/approve", name: "decide about a definition", logged: []string{"upstream", "tool", "digest", "decision"}, do: (*Console).decide}

func (c *Console) decide(w http.ResponseWriter, r *http.Request) {
	decision, tool := r.PostFormValue("decision"), r.PostFormValue("tool")
	if decision != "accept" && decision != "refuse" {
		c.fail(w, r, http.StatusBadRequest, "The form does not say whether to accept or to refuse. Load the page again.")
		return
	}
	err := c.Pins.Decide(r.Context(), r.PostFormValue("upstream"), tool, r.PostFormValue("digest"), decision == "accept")
	switch {
	case errors.Is(err, pins.ErrNotHeld):
		c.fail(w, r, http.StatusConflict, "Nothing was decided: "+err.Error()+".")
		return
	case err != nil:
		c.fail(w, r, http.StatusInternalServerError, "Nothing was decided: "+err.Error())
		return
	}
	done := map[string]string{"accept": "accepted", "refuse": "refused"}[decision]
	to := url.Values{"done": {done}, "tool": {clip(tool, maxLogged)}}
	if q := r.PostFormValue("q"); q != "" {
		to.Set("q", clip(q, maxLogged))
	}
	http.Redirect(w, r, approvePage.href()+"?"+to.Encode(), http.StatusSeeOther)
}
