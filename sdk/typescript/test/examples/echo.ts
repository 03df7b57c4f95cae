// echo.ts
import { BaseTool, ToolError, type ToolRequest, type ToolResponse } from '@toolhall/sdk';

export class Echo extends BaseTool {
  constructor() {
    super('Echo', '1.0.0');
  }

  async handleRequest(request: ToolRequest): Promise<ToolResponse> {
    if (request.method === 'say') return { result: await this.handleSay(request.params) };
    throw new ToolError('Unknown method');
  }

  private async handleSay(params: Record<string, unknown>): Promise<Record<string, unknown>> {
    return { said: params };
  }
}
