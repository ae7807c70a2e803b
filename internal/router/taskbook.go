package router

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// TaskBook lists the tasks of principals, for all replicas. Its methods may be called
// concurrently. They wait for no longer than a client can.
type TaskBook interface {
	// Replica is the name of this replica.
	Replica() string
	// Add adds a task of a principal, or replaces the one with the same key. seq orders the tasks of a
	// principal; ttl is how long the upstream keeps the task, 0 if it does not say.
	Add(ctx context.Context, who *call.Principal, key, id string, seq int64, ttl time.Duration)
	// Remove removes the task with this key.
	Remove(ctx context.Context, who *call.Principal, key string)
	// Of returns the public ids of the tasks of a principal, in its profile, that come after a number,
	// by their number.
	Of(ctx context.Context, who *call.Principal, after int64) (seqs []int64, ids []string, err error)
}

// TaskHolder is an [Upstream] among several replicas.
type TaskHolder interface {
	// DoTask is Do for a request about a task that began at the replica with this name.
	DoTask(ctx context.Context, replica string, c *call.Call) (call.Result, error)
}

// key identifies a task in a TaskBook.
func (k taskKey) key() string { return k.upstream + "\x00" + k.session + "\x00" + k.native }

// addTask registers a task that was announced to a client.
func (f *forwarding) addTask(t knownTask, ttl time.Duration) {
	r := f.router
	seq := r.tasks.add(t)
	if r.book != nil {
		r.book.Add(f.ctx, t.principal, keyOf(t.ref).key(), t.id, seq, ttl)
	}
}

// dropTask removes the task that its upstream no longer knows.
func (f *forwarding) dropTask() {
	r, key := f.router, keyOf(f.task.ref)
	r.tasks.drop(key)
	if r.book != nil {
		r.book.Remove(f.ctx, f.call.Principal, key.key())
	}
}

// replica is the name of this replica, "" without others.
func (r *Router) replica() string {
	if r.book == nil {
		return ""
	}
	return r.book.Replica()
}

// tasksOf returns the tasks of the caller after the one with the number after, the oldest first: those
// that began at all replicas, or while the book cannot be read those that began here.
func (r *Router) tasksOf(ctx context.Context, c *call.Call, after int64) ([]knownTask, error) {
	if r.book == nil {
		return r.tasks.ofPrincipal(c.Principal, after), nil
	}
	seqs, ids, err := r.book.Of(ctx, c.Principal, after)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.ratelog.Warn("a list of tasks has only those of this replica", zap.String("request", c.ID), zap.String("principal", c.Principal.Subject),
			ratelog.Profile(c.Principal.Profile), zap.Error(err))
		return r.tasks.ofPrincipal(c.Principal, after), nil
	}
	var out []knownTask
	for i, id := range ids {
		if ref, err := r.sealer.OpenTask(id, c.Principal); err == nil {
			out = append(out, knownTask{client: c.Client, principal: c.Principal, ref: ref, id: id, seq: seqs[i]})
		}
	}
	return out, nil
}

// pageOf returns the first page of tasks. Tasks with the same number are on one page.
func pageOf(tasks []knownTask) []knownTask {
	n := min(taskPage, len(tasks))
	for n > 0 && n < len(tasks) && tasks[n].seq == tasks[n-1].seq {
		n++
	}
	return tasks[:n]
}

// doTask returns what makes requests about the task of this forwarding: at the replica that has it.
func (f *forwarding) doTask() bridge.Do {
	replica := f.task.ref.Replica
	if holder, ok := f.upstream.(TaskHolder); ok && replica != "" {
		return func(ctx context.Context, c *call.Call) (call.Result, error) { return holder.DoTask(ctx, replica, c) }
	}
	return f.upstream.Do
}

// IsUnknownTask reports whether the upstream says that it does not know the task.
func IsUnknownTask(err error) bool {
	rpc, ok := errors.AsType[*wire.Error](err)
	return ok && rpc.Raw != nil && rpc.Code == wire.CodeInvalidParams
}
