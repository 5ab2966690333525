{{/* What the operator may do where jobs are. */}}
{{- define "lockstep.rules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [patch]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/finalizers]  # blockOwnerDeletion, where the server insists on it
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch, create, update]
- apiGroups: [""]
  resources: [secrets]  # the jobs' keys; it can read none of them
  verbs: [create]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- $groups := dict "Kubernetes" "scheduling.k8s.io" "Coscheduling" "scheduling.x-k8s.io" "Volcano" "scheduling.volcano.sh" }}
{{- range .Values.gangScheduling }}
- apiGroups: [{{ get $groups . }}]
  resources: [podgroups]
  verbs: [get, create, delete]
{{- end }}
{{- end -}}

{{/* The Lease, of this name, by which the jobs there are its own. */}}
{{- define "lockstep.claimRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update]
{{- end -}}

{{/* And where it runs: the Lease, and the one Secret that it reads. What the rules of jobs there allow is left out. */}}
{{- define "lockstep.ownRules" -}}
{{- $jobsHere := has .Release.Namespace .Values.watchNamespaces -}}
{{- if and .Values.watchNamespaces (not $jobsHere) -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]  # that one
{{ end -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [lockstep-master-key]
  verbs: [get]
{{ if not $jobsHere -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{ end -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "lockstep.operator" . }}]
  verbs: [get, update]
{{- end -}}
