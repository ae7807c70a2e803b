// Package schemaform shows JSON Schemas to people: in words, and as forms that are filled in by hand. Forms are made on the server and work
// without a script: a button that adds an item posts the form, and [New] makes it again with one more.
//
// Schemas and posted values are hostile. Fields, depth and steps through references are bounded, names of elements are places in the schema, and
// values are copied into the JSON as they were typed.
package schemaform
