package downlevel

// Kind is a kind of replacement.
type Kind uint8

// The kinds, by what is replaced.
const (
	Audio             Kind = iota // an audio block
	ResourceLink                  // a resource_link block
	StructuredContent             // structuredContent that is not an object
	OutputSchema                  // an outputSchema whose type is not "object"
	BooleanSchema                 // true or false as the schema of a property
	TaskRequired                  // execution.taskSupport "required"
	Notification                  // a notification that the client does not know
)

// Kinds is the number of kinds.
const Kinds = 7

// String returns the label of the kind in metrics.
func (k Kind) String() string {
	return [Kinds]string{
		"audio", "resource_link", "structured_content", "output_schema", "boolean_schema", "task_required", "notification",
	}[k]
}

// Counts counts replacements by kind.
type Counts [Kinds]int

// Add adds other counts.
func (t *Counts) Add(u Counts) {
	for k, n := range u {
		t[k] += n
	}
}
