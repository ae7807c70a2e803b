package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	era := flag.String("era", "", "legacy or modern; both when empty")
	addr := flag.String("http", "", "address to serve streamable HTTP on; standard input and output when empty")
	flag.Parse()
	if err := serve(*era, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "tasksfixture:", err)
		os.Exit(1)
	}
}

func serve(era, addr string) error {
	s := newServer(era)
	defer s.close()
	if addr == "" {
		return s.pipe(os.Stdin, os.Stdout)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(l, s)
}
