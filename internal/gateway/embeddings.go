package gateway

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"

	"mcpgateway/internal/embeddings"
	"mcpgateway/internal/router"
	"mcpgateway/internal/search"
)

// embeddingsFile is the file of the state folder that keeps the vectors of tools.
const embeddingsFile = "embeddings"

// newEmbeddings returns the store of the configured server of embeddings, nil for none.
func (g *Gateway) newEmbeddings() *embeddings.Store {
	c := g.cfg.Embeddings
	if c.URL == "" {
		return nil
	}
	file := ""
	if dir := g.state.Path(); dir != "" {
		file = filepath.Join(dir, embeddingsFile)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{
		Transport: transport,
		// A redirect could take the key and the queries to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return embeddings.New(embeddings.Server{URL: c.URL, Model: c.Model, Key: c.Key.Reveal(), HTTP: client}, file, g.log)
}

// followEmbeddings makes the embeddings of the tools that searches may find. Tools that an upstream
// lists only to single principals get none: they are found by their words.
func (g *Gateway) followEmbeddings(routes *router.Routes) {
	if g.embeddings == nil {
		return
	}
	texts := make(map[*search.Doc]func() string)
	for _, t := range routes.Tables() {
		maps.Insert(texts, t.SearchDocs())
	}
	g.embeddings.Follow(texts)
}

// runEmbeddings makes embeddings until life ends.
func (g *Gateway) runEmbeddings(life context.Context) error {
	if g.embeddings != nil {
		g.embeddings.Run(life)
	}
	return nil
}
