package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// connector makes connections ready for commands, apart from the operations that use them. The library logs in within the
// time of the first operation that uses a connection, and closes a connection of which that operation took too
// long. So an operation of 250 ms would never have a connection if the server takes 130 ms for a reply.
type connector struct {
	store    *Store
	client   *redis.Client
	commands [][]string // of the login
	waits    bool       // operations have much time
}

// connect makes the connections of a client ready.
func (s *Store) connect(o Options, client *redis.Client, waits bool) {
	c := &connector{store: s, client: client, waits: waits}
	switch {
	case o.Password == "":
	case o.Username == "":
		c.commands = append(c.commands, []string{"AUTH", o.Password})
	default:
		c.commands = append(c.commands, []string{"AUTH", o.Username, o.Password})
	}
	if o.DB > 0 {
		c.commands = append(c.commands, []string{"SELECT", strconv.Itoa(o.DB)})
	}
	client.AddHook(c)
}

// DialHook implements redis.Hook. A new connection is logged in as a part of the dial, which goes on if the operation that
// needs it gives up.
func (c *connector) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil || len(c.commands) == 0 {
			return conn, err
		}
		if err := c.login(ctx, conn); err != nil {
			_ = conn.Close() // it is of no use any more
			return nil, err
		}
		return conn, nil
	}
}

// login sends the commands at once and reads their replies.
func (c *connector) login(ctx context.Context, conn net.Conn) error {
	until := time.Now().Add(dialTimeout)
	if earlier, is := ctx.Deadline(); is && earlier.Before(until) {
		until = earlier
	}
	if err := conn.SetDeadline(until); err != nil {
		return err
	}
	var b strings.Builder
	for _, command := range c.commands {
		fmt.Fprintf(&b, "*%d\r\n", len(command))
		for _, word := range command {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return err
	}
	replies := bufio.NewReader(conn) // the server sends nothing more until it is asked
	for range c.commands {
		line, err := replies.ReadSlice('\n')
		if err != nil {
			return err
		}
		if reply := strings.TrimSpace(string(line)); reply != "+OK" {
			return errors.New(strings.TrimPrefix(reply, "-"))
		}
	}
	return conn.SetDeadline(time.Time{})
}

// warmUp is a command that is sent to have a connection.
type warmUp struct{ *redis.Cmd }

// ready returns when there is a connection that no operation uses, or when the operation has to wait for the others.
func (c *connector) ready(ctx context.Context) error {
	if c.waits {
		return nil
	}
	if stats := c.client.PoolStats(); stats.IdleConns > 0 || int(stats.TotalConns) >= c.client.Options().PoolSize {
		return nil
	}
	done := make(chan error, 1)
	c.store.running.Go(func() {
		ctx, cancel := context.WithTimeout(c.store.closing, dialTimeout+ioTimeout)
		defer cancel()
		err := c.client.Process(ctx, warmUp{redis.NewCmd(ctx, "get", c.store.prefix+"probe")})
		if refused := redis.Error(nil); errors.As(err, &refused) {
			err = nil // the connection works; the operation hears by itself what is refused
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ProcessHook implements redis.Hook. The greeting of the library would take a round trip more, within the time of an
// operation, to choose the protocol that a connection has anyway.
func (c *connector) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hello" {
			return nil
		}
		if _, is := cmd.(warmUp); !is {
			if err := c.ready(ctx); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *connector) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := c.ready(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}
