// What the chart's dashboards must be: @grafana/schema's types, as JSON has them.
import type { DataSourceRef, Dashboard, FieldConfig, GridPos, Panel, RowPanel } from "@grafana/schema";
import type * as bargauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as gauge from "@grafana/schema/dist/esm/raw/composable/gauge/panelcfg/x/GaugePanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeline from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// JSON has an enum's value where TypeScript wants its name.
type Json<T> = T extends string
  ? `${T}`
  : T extends number | boolean | null | undefined
    ? T
    : { [K in keyof T]: Json<T[K]> };

// A query to Prometheus; @grafana/schema leaves these to the data source.
interface Target {
  refId: string;
  datasource: DataSourceRef;
  expr: string;
  legendFormat: string;
  editorMode: "code";
  format: "time_series" | "table";
  instant: boolean;
  range: boolean;
}

interface PanelOf<Type extends string, Options, Custom = never>
  extends Omit<Panel, "type" | "options" | "targets" | "fieldConfig"> {
  type: Type;
  id: number;
  title: string;
  description: string;
  gridPos: GridPos;
  options: Options;
  targets: Target[];
  fieldConfig: {
    defaults: Omit<FieldConfig, "custom"> & { custom?: Partial<Custom> };
    overrides: NonNullable<Panel["fieldConfig"]>["overrides"];
  };
}

type AnyPanel =
  | PanelOf<"bargauge", bargauge.Options>
  | PanelOf<"gauge", gauge.Options>
  | PanelOf<"stat", stat.Options>
  | PanelOf<"state-timeline", timeline.Options, timeline.FieldConfig>
  | PanelOf<"table", table.Options, table.FieldConfig>
  | PanelOf<"timeseries", timeseries.Options, timeseries.FieldConfig>;

interface Row extends Omit<RowPanel, "panels"> {
  panels: AnyPanel[];
}

export type ClassicDashboard = Json<
  Omit<Dashboard, "panels"> & { panels: (AnyPanel | Row)[]; uid: string; title: string }
>;
