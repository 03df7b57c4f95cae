import { BaseTool, ToolRequest, ToolResponse, ToolError } from '@toolhall/sdk';

export class ExampleTool extends BaseTool {
  constructor() {
    super('example-tool', '1.0.0');
  }

  async handleRequest(request: ToolRequest): Promise<ToolResponse> {
    try {
      if (request.method === 'method1') {
        const result = await this.handleMethod1(request.params);
        return { result };
      }
      throw new ToolError('Unknown method');
    } catch (error) {
      throw new ToolError(error.message);
    }
  }

  private async handleMethod1(params: Record<string, any>): Promise<Record<string, any>> {
    // Implementation
    return { status: 'success' };
  }
}
