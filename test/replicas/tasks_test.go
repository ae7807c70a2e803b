package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// task has the members that both forms of a task share.
type task struct {
	TaskID string `json:"taskId"`
	Status string `json:"status"`
	Task   *task  `json:"task"`
	Tasks  []task `json:"tasks"`
}

// tasksClient is one client, which every replica serves.
type tasksClient struct {
	t       *testing.T
	era     string
	r       *rig.Replicas
	clients []*raw.Client // one at each replica
}

// clientOfTasks opens a client at the first replica, and uses its session at all of them.
func clientOfTasks(t *testing.T, r *rig.Replicas, era rig.Era) *tasksClient {
	t.Helper()
	c := &tasksClient{t: t, era: raw.Legacy, r: r}
	if era == rig.Modern {
		c.era = raw.Modern
	}
	first, err := raw.OpenWith(t.Context(), r.Gateways[0].URL, c.era, key("ann"))
	if err != nil {
		t.Fatal(err)
	}
	c.clients = append(c.clients, first)
	for _, g := range r.Gateways[1:] {
		c.clients = append(c.clients, first.At(g.URL))
	}
	return c
}

// withTasks are the _meta members of a modern client that supports tasks.
const withTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + raw.Modern + `","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// send sends a request to a replica and returns the result.
func (c *tasksClient) send(replica int, method, name, params string) (string, error) {
	if c.era == raw.Legacy {
		m, err := c.clients[replica].Call(c.t.Context(), method, `{`+params+`}`)
		if err != nil {
			return "", err
		}
		return m.Member("result"), nil
	}
	if params != "" {
		params += ","
	}
	header := http.Header{"Mcp-Method": {method}, "Mcp-Name": {name}}
	answer, err := c.clients[replica].Post(c.t.Context(), header, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, withTasks))
	if err != nil {
		return "", err
	}
	if fault := answer.Response.Fault(); fault != nil {
		return "", fault
	}
	return answer.Response.Member("result"), nil
}

func (c *tasksClient) ask(replica int, method, name, params string) string {
	c.t.Helper()
	result, err := c.send(replica, method, name, params)
	if err != nil {
		c.t.Fatalf("%s at replica %d: %v", method, replica+1, err)
	}
	return result
}

// begin begins a task that lasts for some seconds.
func (c *tasksClient) begin(replica int, seconds int) (id string) {
	c.t.Helper()
	params := fmt.Sprintf(`"name":"jobs__slow_compute","arguments":{"seconds":%d}`, seconds)
	if c.era == raw.Legacy {
		params += `,"task":{"ttl":600000}`
	}
	created := read(c.t, c.ask(replica, "tools/call", "jobs__slow_compute", params))
	if created.Task != nil {
		created = *created.Task
	}
	if created.TaskID == "" {
		c.t.Fatal("no task was made")
	}
	return created.TaskID
}

// beginWatched begins a task at one replica, and opens a stream at another that tells of its changes.
func (c *tasksClient) beginWatched(replica, watch int) (id string, changes *raw.Stream) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	c.t.Cleanup(cancel)
	var err error
	if c.era == raw.Legacy {
		if changes, err = c.clients[watch].Subscribe(ctx); err == nil {
			id = c.begin(replica, 1)
		}
	} else {
		id = c.begin(replica, 1)
		changes, err = c.clients[watch].Begin(ctx, 2, "subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q]},%s}`, id, withTasks))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { changes.Close() })
	return id, changes
}

// sees reads a stream until it tells that the task has this status.
func (c *tasksClient) sees(changes *raw.Stream, id, status string) {
	c.t.Helper()
	for {
		m, err := changes.Next()
		if err != nil {
			c.t.Fatalf("the stream ended without the status %s of the task: %v", status, err)
		}
		if !strings.HasPrefix(m.Method(), "notifications/tasks") {
			continue
		}
		if got := read(c.t, m.Member("params")); got.TaskID == id && got.Status == status {
			return
		}
	}
}

func read(t *testing.T, text string) (out task) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// about sends a request about a task.
func (c *tasksClient) about(replica int, method, id string) (task, string) {
	c.t.Helper()
	result := c.ask(replica, method, id, fmt.Sprintf(`"taskId":%q`, id))
	return read(c.t, result), result
}

// refused checks that a principal in a profile cannot ask for a task that is not theirs.
func (c *tasksClient) refused(replica int, who, path, id string) {
	c.t.Helper()
	other, err := raw.OpenWith(c.t.Context(), strings.TrimSuffix(c.r.Gateways[replica].URL, "/mcp")+path, c.era, key(who))
	if err != nil {
		c.t.Fatal(err)
	}
	params := fmt.Sprintf(`"taskId":%q`, id)
	_, err = (&tasksClient{t: c.t, era: c.era, clients: []*raw.Client{other}}).send(0, "tasks/get", id, params)
	if fault, ok := err.(*raw.Fault); !ok || fault.Code != -32602 || !strings.Contains(fault.Message, "unknown task") {
		c.t.Errorf("%s at %s: %v", who, path, err)
	}
}

// A task can be asked for, listed, waited for and cancelled at every replica, wherever it lives: in the process or session of one replica, or at a
// server that knows the tasks of all.
func TestTasksAmongReplicas(t *testing.T) {
	redis, _ := rig.StartRedis(t)
	for _, era := range []rig.Era{rig.Legacy, rig.Modern} {
		for _, kind := range []string{"http", "stdio", "per-client"} {
			if kind == "per-client" && era == rig.Modern {
				continue // there are no sessions
			}
			t.Run(fmt.Sprintf("%s %s", era, kind), func(t *testing.T) {
				jobs := rig.Config{"era": era}
				if kind == "stdio" {
					command := rig.TasksCommand(t, era)
					jobs["command"], jobs["args"] = command[0], command[1:]
				} else {
					jobs["url"] = rig.Tasks(t, era)
				}
				if kind == "per-client" {
					jobs["session"] = "per-client"
				}
				r := rig.StartReplicas(t, replicas, rig.Config{
					"store":     rig.Config{"kind": "redis", "url": "redis://" + redis, "prefix": strings.ReplaceAll(t.Name(), "/", "-")},
					"upstreams": rig.Upstreams{"jobs": jobs}, "auth": principals, "policy": rig.Config{"default": "allow"},
					"profiles": rig.Config{"other": rig.Config{}},
				})
				seeEachOther(t, r)
				c := clientOfTasks(t, r, era)
				var ids []string
				for replica := range replicas {
					ids = append(ids, c.begin(replica, 600))
				}
				for replica := range replicas {
					for _, id := range ids {
						if got, _ := c.about(replica, "tasks/get", id); got.TaskID != id || got.Status != "working" {
							t.Errorf("tasks/get at replica %d: %+v", replica+1, got)
						}
					}
					if era == rig.Legacy {
						if got := read(t, c.ask(replica, "tasks/list", "", "")).Tasks; len(got) != len(ids) {
							t.Errorf("tasks/list at replica %d: %+v, want %d tasks", replica+1, got, len(ids))
						}
					}
				}
				// The third replica tells of a task of the first, the second waits for it, and the third cancels one of the second.
				short, changes := c.beginWatched(0, 2)
				if era == rig.Legacy {
					if _, result := c.about(1, "tasks/result", short); !strings.Contains(result, "content") {
						t.Errorf("tasks/result at another replica: %s", result)
					}
				} else {
					polltest.Until(t, "the task has ended", func() bool {
						got, _ := c.about(1, "tasks/get", short)
						return got.Status == "completed"
					})
				}
				c.sees(changes, short, "completed")
				c.about(2, "tasks/cancel", ids[1])
				if got, _ := c.about(0, "tasks/get", ids[1]); got.Status != "cancelled" {
					t.Errorf("the cancelled task is %+v", got)
				}
				c.refused(2, "bob", "/mcp", ids[0])
				c.refused(2, "ann", "/mcp/other", ids[0])
			})
		}
	}
}

// seeEachOther waits until each replica sees all others.
func seeEachOther(t *testing.T, r *rig.Replicas) {
	t.Helper()
	see(t, r.Gateways, replicas)
}

// waitGone waits until these replicas see that all others have ended.
func waitGone(t *testing.T, left []*rig.Gateway) {
	t.Helper()
	see(t, left, float64(len(left)))
}

func see(t *testing.T, gateways []*rig.Gateway, want float64) {
	t.Helper()
	for _, g := range gateways {
		polltest.UntilNil(t, "the replicas see each other", func() error {
			n, err := metric(g.Admin+"/metrics", "mcp_gateway_replicas")
			if err == nil && n != want {
				err = fmt.Errorf("%v replicas", n)
			}
			return err
		})
	}
}

// The task of a killed replica goes on at a server that knows it. The legacy server knows the tasks of a session only, and says so at once.
func TestTaskOfKilledReplica(t *testing.T) {
	redis, _ := rig.StartRedis(t)
	for _, era := range []rig.Era{rig.Legacy, rig.Modern} {
		t.Run(string(era), func(t *testing.T) {
			r := rig.StartReplicas(t, replicas, rig.Config{
				"store":     rig.Config{"kind": "redis", "url": "redis://" + redis, "prefix": string(era)},
				"upstreams": rig.Upstreams{"jobs": {"era": era, "url": rig.Tasks(t, era)}}, "auth": principals, "policy": rig.Config{"default": "allow"},
			})
			seeEachOther(t, r)
			c := clientOfTasks(t, r, era)
			id := c.begin(0, 3)
			r.Gateways[0].Process.Kill()
			if era == rig.Legacy {
				waitGone(t, r.Gateways[1:])
				for replica := 1; replica < replicas; replica++ {
					_, err := c.send(replica, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
					if fault, ok := err.(*raw.Fault); !ok || fault.Code != -32602 {
						t.Errorf("tasks/get at replica %d: %v", replica+1, err)
					}
					if got := read(t, c.ask(replica, "tasks/list", "", "")).Tasks; len(got) != 0 {
						t.Errorf("tasks/list at replica %d: %+v", replica+1, got)
					}
				}
			} else {
				polltest.UntilNil(t, "the task has ended", func() error {
					got, _ := c.about(1, "tasks/get", id)
					if got.Status != "completed" {
						return fmt.Errorf("it is %s", got.Status)
					}
					return nil
				})
			}
		})
	}
}
