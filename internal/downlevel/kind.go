package downlevel

// Kind is a sort of thing that clients get in an older form.
type Kind uint8

// The kinds of things.
const (
	Audio             Kind = iota // a content block of that type
	ResourceLink                  // a content block of that type
	StructuredContent             // structuredContent that is no object
	OutputSchema                  // an outputSchema whose type is not "object"
	BooleanSchema                 // true or false as the schema of a tool's property
	TaskRequired                  // the mark of a tool that it can be called as a task only
	Notification                  // a notification whose method the client cannot know
)

// Kinds is the number of kinds.
const Kinds = 7

// String returns the kind as metrics label it.
func (k Kind) String() string {
	return [Kinds]string{
		"audio", "resource_link", "structured_content", "output_schema", "boolean_schema", "task_required", "notification",
	}[k]
}

// Counts says how many things of each kind were replaced.
type Counts [Kinds]int

// Add counts what u counts too.
func (t *Counts) Add(u Counts) {
	for k, n := range u {
		t[k] += n
	}
}
