package cli

// PageAnnotation is the annotation of commands whose Long text is a page of the manual; its value
// is the name of the page. The page is read only for help, because most runs do not need it.
const PageAnnotation = "mcptrack_page"

// ManualPage returns the annotation for a page of the manual.
func ManualPage(name string) map[string]string { return map[string]string{PageAnnotation: name} }
