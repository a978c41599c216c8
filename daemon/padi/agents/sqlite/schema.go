package sqlite

import (
	"fmt"
	"slices"
	"strings"
)

// Table is one table of a database.
type Table struct {
	db      *DB
	name    string
	root    uint32
	columns []column
	indexes []index
	// primary is the column whose constraint SQLite made the first index of its own for, or "".
	primary string
	// without says that the table has no rowids, which is not read here.
	without bool
}

type column struct {
	name string
	// isRowid says that the column is another name of the rowid.
	isRowid bool
}

type index struct {
	root  uint32
	first string // column
}

// Row is one row, by column.
type Row map[string]Value

// Text is the text in a column, or "".
func (r Row) Text(column string) string {
	switch v := r[column].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// Int is the number in a column, or 0.
func (r Row) Int(column string) int64 {
	switch v := r[column].(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return 0
}

// Table finds a table. One that is not there gives ErrNoTable.
func (db *DB) Table(name string) (*Table, error) {
	if db.schema == nil {
		if err := db.readSchema(); err != nil {
			return nil, err
		}
	}
	t := db.schema[strings.ToLower(name)]
	if t == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrNoTable)
	}
	if t.without {
		return nil, fmt.Errorf("%w: table %s has no rowids", ErrFormat, name)
	}
	return t, nil
}

func (db *DB) readSchema() error {
	schema := map[string]*Table{}
	type made struct {
		name, table, sql string
		root             uint32
	}
	var indexes []made
	_, err := db.newestFirst(1, 0, func(_ int64, body []byte) (bool, error) {
		v, err := record(body)
		if err != nil || len(v) < 5 {
			return false, errRecord
		}
		row := Row{"type": v[0], "name": v[1], "table": v[2], "root": v[3], "sql": v[4]}
		switch row.Text("type") {
		case "table":
			schema[strings.ToLower(row.Text("name"))] = newTable(db, row.Text("name"), uint32(row.Int("root")), row.Text("sql"))
		case "index":
			indexes = append(indexes, made{row.Text("name"), strings.ToLower(row.Text("table")), row.Text("sql"), uint32(row.Int("root"))})
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	for _, x := range indexes {
		t := schema[x.table]
		if t == nil {
			continue
		}
		first := firstColumn(x.sql)
		if x.sql == "" && x.name == "sqlite_autoindex_"+t.name+"_1" {
			first = t.primary
		}
		if first != "" {
			t.indexes = append(t.indexes, index{root: x.root, first: first})
		}
	}
	db.schema = schema
	return nil
}

func newTable(db *DB, name string, root uint32, sql string) *Table {
	t := &Table{db: db, name: name, root: root}
	inside, after := parenthesis(withoutComments(sql))
	t.without = strings.Contains(strings.ToUpper(after), "WITHOUT")
	for _, def := range splitTop(inside) {
		word, quoted, rest := firstWord(def)
		upper := strings.ToUpper(word)
		if word == "" || !quoted && slices.Contains([]string{"PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"}, upper) {
			continue
		}
		kind := strings.Join(strings.Fields(strings.ToUpper(rest)), " ")
		c := column{name: word, isRowid: strings.HasPrefix(kind, "INTEGER PRIMARY KEY") && !strings.Contains(kind, "DESC")}
		t.columns = append(t.columns, c)
		if strings.Contains(kind, "PRIMARY KEY") && !c.isRowid && !strings.Contains(strings.ToUpper(inside), "UNIQUE") {
			t.primary = c.name
		}
	}
	return t
}

// Missing are those of the columns that the table does not have.
func (t *Table) Missing(columns ...string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(want string) bool {
		return slices.ContainsFunc(t.columns, func(c column) bool { return c.name == want })
	})
}

// Newest visits the rows from the greatest rowid down, until visit says no.
func (t *Table) Newest(visit func(Row) bool) error {
	_, err := t.db.newestFirst(t.root, 0, func(rowid int64, body []byte) (bool, error) {
		row, err := t.row(rowid, body)
		return err == nil && visit(row), err
	})
	return err
}

// Where visits the rows with this value in a column, from the greatest rowid down, until visit says no. It uses an index on the column where there is
// one, else it reads the whole table.
func (t *Table) Where(column string, value Value, visit func(Row) bool) error {
	i := slices.IndexFunc(t.indexes, func(x index) bool { return x.first == column })
	if i < 0 {
		return t.Newest(func(row Row) bool { return compare(row[column], value) != 0 || visit(row) })
	}
	_, err := t.db.lastFirst(t.indexes[i].root, value, 0, func(key []Value) (bool, error) {
		rowid, _ := key[len(key)-1].(int64)
		body, err := t.db.row(t.root, rowid)
		if err != nil || body == nil {
			return err == nil, err
		}
		row, err := t.row(rowid, body)
		return err == nil && visit(row), err
	})
	return err
}

func (t *Table) row(rowid int64, body []byte) (Row, error) {
	values, err := record(body)
	if err != nil {
		return nil, fmt.Errorf("table %s, row %d: %w", t.name, rowid, err)
	}
	row := make(Row, len(t.columns))
	for i, c := range t.columns {
		switch {
		case c.isRowid:
			row[c.name] = rowid
		case i < len(values):
			row[c.name] = values[i]
		default: // the column is younger than the row
			row[c.name] = nil
		}
	}
	return row, nil
}

// parenthesis is what the first parenthesis of a statement holds, and what follows it.
func parenthesis(sql string) (inside, after string) {
	start, depth := -1, 0
	for i := 0; i < len(sql); i++ {
		switch c := sql[i]; c {
		case '\'', '"', '`':
			if end := strings.IndexByte(sql[i+1:], c); end >= 0 {
				i += end + 1
			}
		case '(':
			if depth++; depth == 1 && start < 0 {
				start = i + 1
			}
		case ')':
			if depth--; depth == 0 {
				return sql[start:i], sql[i+1:]
			}
		}
	}
	return "", ""
}

func withoutComments(sql string) string {
	lines := strings.Split(sql, "\n")
	for i, line := range lines {
		if code, _, ok := strings.Cut(line, "--"); ok && strings.Count(code, "'")%2 == 0 {
			lines[i] = code
		}
	}
	return strings.Join(lines, "\n")
}

// splitTop splits at the commas that are in no parenthesis and in no quotes.
func splitTop(s string) []string {
	var parts []string
	depth, from := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '"', '`':
			if end := strings.IndexByte(s[i+1:], c); end >= 0 {
				i += end + 1
			}
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, s[from:i]), i+1
			}
		}
	}
	return append(parts, s[from:])
}

func firstWord(def string) (word string, quoted bool, rest string) {
	def = strings.TrimSpace(def)
	if def == "" {
		return "", false, ""
	}
	if end := map[byte]byte{'"': '"', '`': '`', '[': ']'}[def[0]]; end != 0 {
		if i := strings.IndexByte(def[1:], end); i >= 0 {
			return def[1 : i+1], true, def[i+2:]
		}
	}
	if i := strings.IndexAny(def, " \t\r\n,"); i >= 0 {
		return def[:i], false, def[i:]
	}
	return def, false, ""
}

// firstColumn is the first column of an index that holds every row and orders by bytes, else "".
func firstColumn(sql string) string {
	inside, after := parenthesis(sql)
	if strings.Contains(strings.ToUpper(after), "WHERE") {
		return ""
	}
	word, _, rest := firstWord(splitTop(inside)[0])
	if strings.TrimSpace(rest) != "" { // DESC, COLLATE, or an expression
		return ""
	}
	return word
}
