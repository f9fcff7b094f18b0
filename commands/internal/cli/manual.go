package cli

// PageAnnotation is the annotation of commands whose Long is a page of the manual; its value is the name
// of the page. Only help reads the page: most runs do not need it.
const PageAnnotation = "mcptrack_page"

// ManualPage returns the annotation for a page.
func ManualPage(name string) map[string]string { return map[string]string{PageAnnotation: name} }
