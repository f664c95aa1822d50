package metadata

import "testing"

// TestQuotaEntityKeys: whatever the names hold, a key is one entity's alone, and
// its parts may come in any order.
func TestQuotaEntityKeys(t *testing.T) {
	text := func(s string) *string { return &s }
	for _, tt := range []struct {
		q    QuotaEntity
		want string
	}{
		{QuotaEntity{{QuotaUser, text("a")}}, `user="a"`},
		{QuotaEntity{{QuotaUser, nil}}, `user=default`},
		{QuotaEntity{{QuotaUser, text("default")}}, `user="default"`},
		{QuotaEntity{{QuotaUser, text("")}}, `user=""`},
		{QuotaEntity{{QuotaUser, text("a")}, {QuotaClientID, nil}}, `client-id=default,user="a"`},
		{QuotaEntity{{QuotaClientID, text(`",user="x`)}}, `client-id="\",user=\"x"`},
		{QuotaEntity{{QuotaIP, text("::1")}}, `ip="::1"`},
	} {
		key := tt.q.Key()
		if key != tt.want {
			t.Errorf("%s, want %s", key, tt.want)
		}
		back, err := ParseQuotaEntity(key)
		if err != nil || back.Key() != key || len(back) != len(tt.q) {
			t.Errorf("%s: %v, %v", key, back, err)
		}
	}
	for _, bad := range []string{"", "user", "=default", `user="a`, `user="a"x`, "user=a", "user=default,"} {
		if _, err := ParseQuotaEntity(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// FuzzQuotaEntity: no key makes trouble, and what is read is what was written.
func FuzzQuotaEntity(f *testing.F) {
	f.Add(`client-id=default,user="a"`)
	f.Fuzz(func(t *testing.T, key string) {
		if q, err := ParseQuotaEntity(key); err == nil {
			if again, err := ParseQuotaEntity(q.Key()); err != nil || again.Key() != q.Key() {
				t.Fatalf("%q, %v", q.Key(), err)
			}
		}
	})
}
