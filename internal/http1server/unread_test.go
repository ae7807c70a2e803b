//go:build unix

package http1server

import (
	"net"
	"testing"

	"mcpgateway/internal/polltest"
)

func TestHasUnread(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if hasUnread(c) {
		t.Error("nothing was sent")
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the byte arrives", func() bool { return hasUnread(c) })
	if _, err := c.Read(make([]byte, 1)); err != nil || hasUnread(c) {
		t.Errorf("after the byte was read: %v", err)
	}
	client.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil || hasUnread(c) {
		t.Error("the end of the connection is no byte")
	}
}
