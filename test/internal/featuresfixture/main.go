package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	legacy = "legacy"
	modern = "modern"
)

// revisions are the revisions that a server of an era supports. An SDK that supports both eras must not choose the other era.
var revisions = map[string][]string{
	legacy: {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"},
	modern: {"2026-07-28"},
}

func main() {
	era := flag.String("era", legacy, "legacy or modern")
	addr := flag.String("http", "", "address to serve streamable HTTP on; standard input and output when empty")
	flag.Parse()
	if err := serve(*era, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "featuresfixture:", err)
		os.Exit(1)
	}
}

func serve(era, addr string) error {
	if revisions[era] == nil {
		return fmt.Errorf("era %q: want legacy or modern", era)
	}
	f := newFixture(era)
	if addr == "" {
		return f.server.Run(context.Background(), &mcp.StdioTransport{})
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	options := &mcp.StreamableHTTPOptions{Stateless: era == modern}
	return http.Serve(l, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return f.server }, options))
}
