// Package schemaform shows JSON Schemas to people, in words and as forms. Forms are rendered on the server and work without
// JavaScript: a button that adds an item posts the form, and [New] renders it again with one more item.
//
// Schemas and posted values are hostile. Fields, depth and steps through references are bounded. Elements are named by
// their place in the schema, and values are copied into the JSON as they were typed.
package schemaform
