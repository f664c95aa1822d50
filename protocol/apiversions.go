package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// Feature is a range of levels of a cluster feature. Source: KIP-584.
type Feature struct {
	Name     string
	Min, Max int16
}

// Features is what ApiVersions tells of cluster features. Source: KIP-584.
type Features struct {
	Supported []Feature // what this node can do
	Finalized []Feature // what the cluster agreed to use
	Epoch     int64     // version of Finalized: the metadata offset it holds at; -1 if unknown

	// Telemetry says that clients are told to push their metrics. Source: KIP-714.
	Telemetry bool
}

// NewApiVersionsResponse builds the answer to a valid ApiVersions request: the
// versions advertised on listeners of the scope and the features. The caller
// owns the result. Source: KIP-35, KIP-511, KIP-584.
//
// Before version 4 a supported feature whose lowest level is 0 is left out,
// because older clients refuse such a range (KAFKA-17011).
func NewApiVersionsResponse(version int16, scope Scope, f Features) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	resp.FinalizedFeaturesEpoch = f.Epoch
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(table))
	for i := range table {
		api := &table[i]
		if api.Name == "" || !api.On(scope) || api.telemetry() && !f.Telemetry {
			continue
		}
		row := kmsg.NewApiVersionsResponseApiKey()
		row.ApiKey, row.MinVersion, row.MaxVersion = api.Key, api.Min, api.Max
		if scope == OnController {
			row.MinVersion = api.ServedMin // the old Produce versions are a courtesy to clients
		}
		resp.ApiKeys = append(resp.ApiKeys, row)
	}
	for _, s := range f.Supported {
		if s.Min == 0 && version < 4 {
			continue
		}
		row := kmsg.NewApiVersionsResponseSupportedFeature()
		row.Name, row.MinVersion, row.MaxVersion = s.Name, s.Min, s.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, row)
	}
	for _, s := range f.Finalized {
		row := kmsg.NewApiVersionsResponseFinalizedFeature()
		row.Name, row.MinVersionLevel, row.MaxVersionLevel = s.Name, s.Min, s.Max
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, row)
	}
	return resp
}

// NewApiVersionsRefusal builds the answer to an ApiVersions request of a version
// we don't know: version 0, UNSUPPORTED_VERSION, and the range of ApiVersions
// alone, from which the client picks the version of its second try. Source:
// KIP-511.
func NewApiVersionsRefusal() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = CodeUnsupportedVersion
	row := kmsg.NewApiVersionsResponseApiKey()
	row.ApiKey, row.MinVersion, row.MaxVersion = KeyApiVersions, table[KeyApiVersions].Min, table[KeyApiVersions].Max
	resp.ApiKeys = append(resp.ApiKeys, row)
	return resp
}

// CheckClientSoftware returns CodeInvalidRequest if an ApiVersions request of
// version 3 or later names its software in a way that could not be a metric
// label: name and version must be letters, digits, hyphens and dots, and begin
// and end with a letter or digit. Source: KIP-511.
func CheckClientSoftware(req *kmsg.ApiVersionsRequest) Code {
	if req.Version >= 3 && !(softwareName(req.ClientSoftwareName) && softwareName(req.ClientSoftwareVersion)) {
		return CodeInvalidRequest
	}
	return CodeNone
}

func softwareName(s string) bool {
	if s == "" || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
