{{/* The base of the names of the release's objects. */}}
{{- define "lockstep.name" -}}
{{- if contains "lockstep" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-lockstep" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "lockstep.operator" -}}
{{ include "lockstep.name" . }}-operator
{{- end -}}

{{/* Metadata of an object: [context, name], and its namespace as third element if it has one. */}}
{{- define "lockstep.metadata" -}}
{{- $context := index . 0 -}}
name: {{ index . 1 }}
{{- if gt (len .) 2 }}
namespace: {{ index . 2 }}
{{- end }}
labels:
  {{- include "lockstep.labels" $context | nindent 2 }}
{{- end -}}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of the operators' pods. */}}
{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of the pods that serve the page, and metadata of the objects around them. */}}
{{- define "lockstep.uiSelector" -}}
{{ include "lockstep.selector" . | replace "component: operator" "component: ui" }}
{{- end -}}
{{- define "lockstep.uiMetadata" -}}
{{ include "lockstep.metadata" (list . (printf "%s-ui" (include "lockstep.name" .)) .Release.Namespace) | replace "component: operator" "component: ui" }}
{{- end -}}

{{/* Selector of the pods of jobs. */}}
{{- define "lockstep.jobSelector" -}}
matchExpressions:
- {key: lockstep.dev/job, operator: Exists}
{{- end -}}

{{/* An image: [context, its values]. */}}
{{- define "lockstep.image" -}}
{{- $context := index . 0 -}}
{{- $image := index . 1 -}}
{{ $image.repository }}{{ with $image.digest }}@{{ . }}{{ else }}:{{ $image.tag | default $context.Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* A file of crds/ with the release's labels, and the annotations that come second. */}}
{{- define "lockstep.file" -}}
{{- $context := index . 0 -}}
{{- $labels := printf "  labels:\n    %s\n" (include "lockstep.labels" $context | indent 4 | trim) -}}
{{- $named := printf "${1}%s%s" $labels (index . 2) -}}
{{- regexReplaceAll "(\n  name: [a-z.]*trainingjobs[.]lockstep[.]dev\n)" ($context.Files.Get (index . 1)) $named -}}
{{- end -}}
